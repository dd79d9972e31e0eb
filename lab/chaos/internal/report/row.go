// Package report writes the results of scenarios: as a table for a terminal, as JSON, and as the
// table of docs/reliability.md.
package report

import (
	"fmt"
	"time"
)

// Row is the result of one scenario with one system. It contains the run that it is from, so that
// rows of several runs can be shown together.
type Row struct {
	Number   int    `json:"number"` // of the scenario
	Scenario string `json:"scenario"`
	What     string `json:"what"` // what the scenario does
	System   string `json:"system"`
	About    string `json:"about"` // the system's version and settings
	Server   string `json:"server"`
	Run      Run    `json:"run"`

	Jobs       int      `json:"jobs"` // acknowledged
	Faults     int      `json:"faults"`
	Lost       int      `json:"lost"`
	Open       int      `json:"open"`        // still waiting or running when the scenario ended: late, not lost
	Duplicates int      `json:"duplicates"`  // extra starts
	Bound      int      `json:"bound"`       // of Duplicates: jobs that were in flight or not settled at the faults
	RecoveryMS int64    `json:"recovery_ms"` // from the last fault until the rate recovered, or all jobs were done; below 0 means nothing here
	TookMS     int64    `json:"took_ms"`
	Notes      []string `json:"notes,omitempty"` // settings, and figures without a criterion
	Checks     []Check  `json:"checks"`
	Error      string   `json:"error,omitempty"`   // why the scenario could not be run to its end
	NotRun     string   `json:"not_run,omitempty"` // what this machine lacks for it
	Void       string   `json:"void,omitempty"`    // how the machine stalled, if that can be why the row failed
}

// Run is what the rows of one run have in common.
type Run struct {
	Command string `json:"command"` // the command that repeats it
	Seed    uint64 `json:"seed"`
	Short   bool   `json:"short"`
	Machine string `json:"machine"`
	Date    string `json:"date"`
}

// Check is a criterion and what was found.
type Check struct {
	Want string `json:"want"`
	Got  string `json:"got"`
	OK   bool   `json:"ok"`
	Time bool   `json:"time,omitempty"` // it depends on time, so a stall of the machine can fail it
}

// Check adds a criterion.
func (r *Row) Check(ok bool, want, got string, args ...any) {
	r.Checks = append(r.Checks, Check{Want: want, Got: fmt.Sprintf(got, args...), OK: ok})
}

// CheckTime adds a criterion that a stall of the machine can fail.
func (r *Row) CheckTime(ok bool, want, got string, args ...any) {
	r.Check(ok, want, got, args...)
	r.Checks[len(r.Checks)-1].Time = true
}

// NoteStall notes a stall of the machine. If only criteria of time have failed, it makes the row
// void: such a row says nothing about the system.
func (r *Row) NoteStall(what string) {
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

// Pass reports whether the row meets all its criteria. A row without criteria has not passed, nor
// has a scenario that was not run.
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

// Result returns the result in a word.
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

// thousands returns n with commas.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
