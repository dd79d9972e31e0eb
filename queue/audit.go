package queue

import (
	"math"
	"time"
)

const (
	maxActor     = 200
	maxSelection = 10_000
	maxReason    = 2_000
)

// AuditEntry is one action of a person or a program, as an [driver.Auditor] keeps it. The names of
// its JSON form will not change.
type AuditEntry struct {
	// ID and At are the backend's: Audit ignores them. IDs rise, with gaps.
	ID int64     `json:"id"`
	At time.Time `json:"at"`
	// Actor is who has acted, as the program knows them: 1 to 200 bytes.
	Actor string `json:"actor"`
	// Action is what was done, such as "jobs.cancel": 1 to 200 printable ASCII bytes.
	Action string `json:"action"`
	// Selection is what the action was meant for, such as "kind=email.welcome status=dead": at most
	// 10,000 bytes, in the program's own form.
	Selection string `json:"selection,omitempty"`
	// Count is how many jobs, or other things, the action has changed.
	Count int64 `json:"count"`
	// Reason is why, in the actor's words: at most 2,000 bytes.
	Reason string `json:"reason,omitempty"`
	// JobID is the ID of the job if the action was meant for one job, else 0.
	JobID int64 `json:"job_id,omitempty"`
}

// Check returns an [*InvalidError] for the first field that is out of range. Backends call it
// before they write any entry.
func (e AuditEntry) Check() error {
	if e.Actor == "" {
		return invalid("AuditEntry.Actor", "empty: say who acts")
	}
	if err := checkName("AuditEntry.Action", e.Action); err != nil {
		return err
	}
	for _, f := range []struct {
		name, text string
		most       int
	}{
		{"Actor", e.Actor, maxActor}, {"Selection", e.Selection, maxSelection}, {"Reason", e.Reason, maxReason},
	} {
		if len(f.text) > f.most {
			return invalid("AuditEntry."+f.name, "%d bytes: at most %d", len(f.text), f.most)
		}
		if err := checkText("AuditEntry."+f.name, f.text); err != nil {
			return err
		}
	}
	if e.Count < 0 {
		return invalid("AuditEntry.Count", "%d: at least 0", e.Count)
	}
	if e.JobID < 0 {
		return invalid("AuditEntry.JobID", "%d: at least 1, or 0 for none", e.JobID)
	}
	return nil
}

// AuditFilter chooses entries to list. A zero field chooses all, so the zero value lists the newest
// 100. For the next page, set Before to the value that AuditLog returned.
type AuditFilter struct {
	Actor  string
	Action string
	JobID  int64
	Before int64 // only entries with a lower ID; 0 means from the newest on
	Limit  int   // how many entries to return at most, up to 1,000; 0 means 100
}

// Checked returns f with the default Limit filled in, and the highest Before if it is 0. If a field
// is out of range, it returns an [*InvalidError]. Backends call it first in AuditLog.
func (f AuditFilter) Checked() (AuditFilter, error) {
	if err := checkText("Actor", f.Actor); err != nil {
		return f, err
	}
	if err := checkText("Action", f.Action); err != nil {
		return f, err
	}
	if f.JobID < 0 {
		return f, invalid("JobID", "%d: at least 1, or 0 for any", f.JobID)
	}
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return f, err
	}
	f.Limit = limit
	if f.Before == 0 {
		f.Before = math.MaxInt64
	}
	return f, nil
}

// Next returns the Before of the page that follows page: the ID of its last entry, or 0 if page is
// shorter than f.Limit.
func (f AuditFilter) Next(page []AuditEntry) int64 {
	if len(page) < f.Limit {
		return 0
	}
	return page[len(page)-1].ID
}
