package queue

import (
	"cmp"
	"math"
	"time"
)

// Status is the state of a job in its table. In a [Filter] "" means any status.
type Status string

// The statuses, by the names that the table uses.
const (
	StatusPending   Status = "pending"   // not yet due, or due and not claimed
	StatusRunning   Status = "running"   // held by a worker
	StatusCompleted Status = "completed" // its handler has succeeded
	StatusFailed    Status = "failed"    // reserved by the documented schema; errand does not set it
	StatusDead      Status = "dead"      // out of attempts, or discarded; kept for a person
	StatusHeld      Status = "held"      // waits for other jobs or for a person; no worker claims it
	StatusCancelled Status = "cancelled" // ended because a person or a program has cancelled it
)

// Record is a job as an [driver.Inspector] returns it. Times are the backend's. A run is from a
// claim to its outcome.
//
// The names of its JSON form will not change. Zero values of optional fields are left out, and
// Unreadable always is: an error has no JSON form.
type Record struct {
	Job
	Status Status `json:"status"`
	// StartedAt is when the current run was claimed. Extensions of the lease do not move it. Of a
	// job that has ended, it is when its last run was claimed, or zero if the backend does not
	// know. Zero for other jobs.
	StartedAt time.Time `json:"started_at,omitzero"`
	// FinishedAt is when the job was completed, became dead or was cancelled. Zero for other jobs. For
	// a job of ClaimTx that was not settled it is when the job was claimed.
	FinishedAt time.Time `json:"finished_at,omitzero"`
	// LockedAt is when the job was claimed, or its lease last extended. Zero unless running.
	LockedAt time.Time `json:"locked_at,omitzero"`
	// LeaseEnds is when the lease expires. Zero unless running.
	LeaseEnds time.Time `json:"lease_ends,omitzero"`
	// RedrivenAt is when the job was last redriven. Zero means never.
	RedrivenAt time.Time `json:"redriven_at,omitzero"`
	// Redrives is how often the job was redriven.
	Redrives int `json:"redrives,omitempty"`
	// CancelAt is when somebody has cancelled the job. A job that runs stays running until its
	// handler has returned. Zero means neither.
	CancelAt time.Time `json:"cancel_at,omitzero"`
	// History is the last failures of the job, at most [driver.MaxHistory], the oldest first. A
	// redrive keeps them. Only [driver.Inspector].Job fills it in, not Jobs.
	History []Failure `json:"history,omitempty"`
	// UpdatedAt is when the job last changed, other than by an extension of its lease.
	UpdatedAt time.Time `json:"updated_at"`
}

// StatusCount is the number of jobs of a queue that have a status. Exact is false if the backend
// has estimated it. Of a long table a backend estimates completed jobs, however few they are, and
// counts only the first 10,000 pending jobs of a queue, and the first 10,000 of each other status
// in all queues; on SQLite 100,000. A table is long on PostgreSQL above 32 MiB, and on SQLite if
// its IDs span more than 100,000. A queue in memory is always counted.
type StatusCount struct {
	Queue  string `json:"queue"`
	Status Status `json:"status"`
	Jobs   int64  `json:"jobs"`
	Exact  bool   `json:"exact"`
}

// Filter chooses jobs to list. A zero field chooses all jobs, so the zero value lists the newest
// 100. Jobs are listed newest first, by ID. For the next page, set Before to the value that Jobs
// returned.
//
// Some choices have no index: completed jobs, jobs of any status, and pending ones by Group,
// MinAttempts or their CreatedAt. For them a call on a database reads the 50,000 newest jobs below
// Before, and on Postgres, of dead, held or cancelled jobs, the 50,000 newest with that Status,
// Queue and Kind. So a page may be short, or empty, although more jobs follow: list on until Jobs
// returns 0 as the next Before.
type Filter struct {
	Queue  string
	Kind   string
	Status Status
	Key    string
	Group  string
	// MinAttempts chooses only jobs that have been run at least so often, as Attempt counts. With
	// [StatusPending] and 2 it lists the jobs that fail again and again. 0 means any job.
	MinAttempts int
	// Expired chooses only running jobs whose lease has expired by the backend's clock: their
	// workers have died or hang, and no worker has reclaimed them yet. Status is then "" or
	// [StatusRunning].
	Expired bool
	// RunningFor chooses only running jobs whose StartedAt is at least this long ago by the
	// backend's clock. 0 means any job. Otherwise Status is "" or [StatusRunning].
	RunningFor time.Duration
	// CreatedFrom and CreatedTo choose only jobs whose CreatedAt is at or after CreatedFrom, and
	// before CreatedTo. The zero time means no bound.
	CreatedFrom, CreatedTo time.Time
	// FinishedFrom and FinishedTo do the same with FinishedAt, which only completed, dead and
	// cancelled jobs have: other jobs do not match. Status is then "" or one of theirs.
	FinishedFrom, FinishedTo time.Time
	// NoPayload lists jobs without Payload, Headers and Unreadable. The backend does not read these
	// from its database.
	NoPayload bool
	// Bare lists jobs without Payload, Headers, Key, LastError and Unreadable: what handlers and
	// enqueuers have put into them. The backend does not read these from its database, so a role
	// without the right to read them can list. Key is then "".
	Bare   bool
	Before int64 // only jobs with a lower ID; 0 means from the newest on; see Next for one below 0
	Limit  int   // how many jobs to return at most, up to 1,000; 0 means 100
}

// Next returns the Before of the page that follows page: the ID of its last job, or 0 if page is
// shorter than f.Limit. A backend uses it if page leaves out no job that f chooses.
//
// IDs begin with 1, unless SQL has written other IDs. Behind a job whose ID is 0 or below, Next
// returns the number before that ID, and a Before below 0 chooses the jobs at that ID and below it:
// 0 would begin again. [Filter.UpTo] tells both apart.
func (f Filter) Next(page []Record) int64 {
	if len(page) < f.Limit {
		return 0
	}
	switch id := page[len(page)-1].ID; {
	case id > 0:
		return id
	case id > math.MinInt64:
		return id - 1
	}
	return 0
}

// UpTo returns the highest ID that Before lets through.
func (f Filter) UpTo() int64 {
	switch {
	case f.Before == 0:
		return math.MaxInt64
	case f.Before > 0:
		return f.Before - 1
	}
	return f.Before
}

// IsIndexed reports whether a backend has an index for the jobs that f chooses: few jobs have the
// other statuses, and pending ones are found by their queue.
func (f Filter) IsIndexed() bool {
	switch f.Status {
	case StatusRunning, StatusDead, StatusHeld, StatusCancelled:
		return true
	case StatusPending:
		return f.Group == "" && f.MinAttempts == 0 && f.CreatedFrom.IsZero() && f.CreatedTo.IsZero()
	}
	return false
}

// Checked returns f with the default Limit filled in, and with the Status that Expired and
// RunningFor imply. If a field is out of range, it returns an [*InvalidError]. Backends call it
// first in Jobs.
func (f Filter) Checked() (Filter, error) {
	if err := checkTexts(f.Queue, f.Kind, f.Key); err != nil {
		return f, err
	}
	if err := checkText("Group", f.Group); err != nil {
		return f, err
	}
	if f.Bare && f.Key != "" {
		return f, invalid("Key", "beside Bare: who may not see keys may not search for them")
	}
	if f.MinAttempts < 0 || f.MinAttempts > math.MaxInt32 {
		return f, invalid("MinAttempts", "%d: between 0 and %d", f.MinAttempts, math.MaxInt32)
	}
	var err error
	if f.Limit, err = pageLimit(f.Limit); err != nil {
		return f, err
	}
	if f.Expired {
		if f.Status != "" && f.Status != StatusRunning {
			return f, invalid("Expired", "beside Status %q: only running jobs have leases", f.Status)
		}
		f.Status = StatusRunning
	}
	if f.RunningFor < 0 {
		return f, invalid("RunningFor", "%v: at least 0", f.RunningFor)
	}
	if f.RunningFor > 0 {
		if f.Status != "" && f.Status != StatusRunning {
			return f, invalid("RunningFor", "beside Status %q: only running jobs", f.Status)
		}
		f.Status = StatusRunning
	}
	if err := f.checkTimes(); err != nil {
		return f, err
	}
	switch f.Status {
	case "", StatusPending, StatusRunning, StatusCompleted, StatusFailed, StatusDead, StatusHeld, StatusCancelled:
		return f, nil
	}
	return f, invalid("Status", "%q: not a status", f.Status)
}

// HasTimes reports whether f bounds when jobs were created or finished.
func (f Filter) HasTimes() bool {
	return !f.CreatedFrom.IsZero() || !f.CreatedTo.IsZero() || !f.FinishedFrom.IsZero() || !f.FinishedTo.IsZero()
}

// checkTimes checks the bounds of CreatedAt and FinishedAt.
func (f Filter) checkTimes() error {
	if err := cmp.Or(checkBounds("Created", f.CreatedFrom, f.CreatedTo), checkBounds("Finished", f.FinishedFrom, f.FinishedTo)); err != nil {
		return err
	}
	if f.FinishedFrom.IsZero() && f.FinishedTo.IsZero() {
		return nil
	}
	switch f.Status {
	case "", StatusCompleted, StatusDead, StatusCancelled:
		return nil
	}
	return invalid("Status", "%q beside FinishedFrom or FinishedTo: only completed, dead and cancelled jobs have finished", f.Status)
}

// checkBounds returns an [*InvalidError] if a database could not compare with one of the times, or
// if there is no time between them.
func checkBounds(name string, from, to time.Time) error {
	isBad := func(t time.Time) bool { return !t.IsZero() && (t.UTC().Year() < 1970 || t.UTC().Year() > 9999) }
	switch {
	case isBad(from):
		return invalid(name+"From", "in the year %d: from 1970 to 9999", from.UTC().Year())
	case isBad(to):
		return invalid(name+"To", "in the year %d: from 1970 to 9999", to.UTC().Year())
	case !from.IsZero() && !to.IsZero() && !from.Before(to):
		return invalid(name+"To", "%v: later than %sFrom, which is %v", to, name, from)
	}
	return nil
}

// pageLimit returns how many rows a page has at most, for the Limit of a filter.
func pageLimit(limit int) (int, error) {
	const usual, most = 100, 1000
	if limit < 0 || limit > most {
		return limit, invalid("Limit", "%d: between 0 (for %d) and %d", limit, usual, most)
	}
	return cmp.Or(limit, usual), nil
}
