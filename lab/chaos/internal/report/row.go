// Package report shows what the scenarios found: as a table on a terminal, as JSON,
// and as the table of docs/reliability.md.
package report

import (
	"fmt"
	"time"
)

// Row is what one scenario found of one system. It says by itself where it comes from, so that
// rows of several runs can be shown together.
type Row struct {
	Number   int    `json:"number"` // in the table of scenarios
	Scenario string `json:"scenario"`
	What     string `json:"what"` // what is done
	System   string `json:"system"`
	About    string `json:"about"` // the system's version and settings
	Server   string `json:"server"`
	Run      Run    `json:"run"`

	Jobs       int      `json:"jobs"` // acknowledged
	Faults     int      `json:"faults"`
	Lost       int      `json:"lost"`
	Open       int      `json:"open"`        // still waiting or running when the scenario ended: late, not lost
	Duplicates int      `json:"duplicates"`  // extra starts
	Bound      int      `json:"bound"`       // of duplicates: in flight or not settled at the faults
	RecoveryMS int64    `json:"recovery_ms"` // from the last fault until the rate was back, or all done; below 0 means that it says nothing here
	TookMS     int64    `json:"took_ms"`
	Notes      []string `json:"notes,omitempty"` // settings, and figures that nothing hangs on
	Checks     []Check  `json:"checks"`
	Error      string   `json:"error,omitempty"`   // why it could not be carried through
	NotRun     string   `json:"not_run,omitempty"` // what this machine has not got for it
	Void       string   `json:"void,omitempty"`    // how the machine stood still, where that can be why the row did not pass
}

// Run is what rows of one run have in common.
type Run struct {
	Command string `json:"command"` // that repeats it
	Seed    uint64 `json:"seed"`
	Short   bool   `json:"short"`
	Machine string `json:"machine"`
	Date    string `json:"date"`
}

// Check is a pass criterion and what was found.
type Check struct {
	Want string `json:"want"`
	Got  string `json:"got"`
	OK   bool   `json:"ok"`
	Time bool   `json:"time,omitempty"` // it is a matter of time: a machine that stands still can fail it
}

// Check adds a criterion.
func (r *Row) Check(ok bool, want, got string, args ...any) {
	r.Checks = append(r.Checks, Check{Want: want, Got: fmt.Sprintf(got, args...), OK: ok})
}

// CheckTime adds a criterion that a machine which stands still can fail by itself.
func (r *Row) CheckTime(ok bool, want, got string, args ...any) {
	r.Check(ok, want, got, args...)
	r.Checks[len(r.Checks)-1].Time = true
}

// Stalled takes note of a stall of the machine. It makes the row void where nothing but criteria of
// time have failed: such a row says nothing of the system.
func (r *Row) Stalled(what string) {
	r.Note("%s", what)
	void := false
	for _, c := range r.Checks {
		if !c.OK && !c.Time {
			return
		}
		void = void || !c.OK
	}
	if void && r.Error == "" && r.NotRun == "" {
		r.Void = what
	}
}

// Note adds a remark.
func (r *Row) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Pass says whether all was as it should be. A row without a criterion has not
// passed, nor has one that was not run.
func (r *Row) Pass() bool {
	for _, c := range r.Checks {
		if !c.OK {
			return false
		}
	}
	return r.Error == "" && r.NotRun == "" && len(r.Checks) > 0
}

// Why returns the first criterion that the row missed and what was found; "" if it missed none.
func (r *Row) Why() string {
	if r.Error != "" {
		return r.Error
	}
	for _, c := range r.Checks {
		if !c.OK {
			return "wanted " + c.Want + "; found " + c.Got
		}
	}
	return ""
}

// Result is a word for it.
func (r *Row) Result() string {
	switch {
	case r.NotRun != "":
		return "not run"
	case r.Pass():
		return "pass"
	case r.Void != "":
		return "VOID"
	}
	return "FAIL"
}

func (r *Row) duplicates() string {
	return fmt.Sprintf("%s ≤ %s", thousands(r.Duplicates), thousands(r.Bound))
}

func (r *Row) recovery() string {
	if r.RecoveryMS < 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f s", float64(r.RecoveryMS)/1000)
}

func (r *Row) took() time.Duration { return time.Duration(r.TookMS) * time.Millisecond }

// thousands is n with commas.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
