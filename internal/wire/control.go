package wire

import (
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Selection chooses the jobs that have all that is set. At least one field besides Status is set.
// It has the fields of [queue.Selection].
type Selection struct {
	IDs    []int64      `json:"ids,omitempty"`
	Queue  string       `json:"queue,omitempty"`
	Kind   string       `json:"kind,omitempty"`
	Group  string       `json:"group,omitempty"`
	Key    string       `json:"key,omitempty"`
	Status queue.Status `json:"status,omitempty"`
}

// CancelAnswer says how many jobs were cancelled or asked.
type CancelAnswer struct {
	Jobs int `json:"jobs"`
	// More says that the time of one request was over before all were: the client asks again.
	More bool `json:"more,omitempty"`
}

// ReportRequest is what a worker tells about itself. See [driver.WorkerReport].
type ReportRequest struct {
	Name        string        `json:"name"`
	Host        string        `json:"host,omitempty"`
	PID         int           `json:"pid,omitempty"`
	Version     string        `json:"version,omitempty"`
	Queues      []string      `json:"queues,omitempty"`
	Kinds       []string      `json:"kinds,omitempty"`
	Concurrency int           `json:"concurrency,omitempty"`
	Busy        int           `json:"busy,omitempty"`
	Waiting     int           `json:"waiting,omitempty"`
	Lease       time.Duration `json:"lease_ns,omitempty"`
	Grace       time.Duration `json:"grace_ns,omitempty"`
	Listens     bool          `json:"listens,omitempty"`
	Poll        time.Duration `json:"poll_ns,omitempty"`
	ClaimError  string        `json:"claim_error,omitempty"`

	Refused      []driver.RefusedOutcome `json:"refused,omitempty"`
	RefusedCount int                     `json:"refused_count,omitempty"`
	Slots        []driver.QueueSlots     `json:"slots,omitempty"`

	Age      time.Duration `json:"age_ns,omitempty"`
	ClaimAge time.Duration `json:"claim_age_ns,omitempty"`
	DrainAge time.Duration `json:"drain_age_ns,omitempty"`
	Stopped  bool          `json:"stopped,omitempty"`
}

// ReportOf returns what the API sends of a report.
func ReportOf(r driver.WorkerReport) ReportRequest {
	return ReportRequest{
		Name: r.Name, Host: r.Host, PID: r.PID, Version: r.Version, Queues: r.Queues, Kinds: r.Kinds,
		Concurrency: r.Concurrency, Busy: r.Busy, Waiting: r.Waiting, Lease: r.Lease, Grace: r.Grace,
		Listens: r.Listens, Poll: r.Poll, ClaimError: r.ClaimError, Refused: r.Refused, RefusedCount: r.RefusedCount, Slots: r.Slots,
		Age: r.Age, ClaimAge: r.ClaimAge, DrainAge: r.DrainAge, Stopped: r.Stopped,
	}
}

// Report returns the report for a backend.
func (r ReportRequest) Report() driver.WorkerReport {
	return driver.WorkerReport{
		WorkerInfo: driver.WorkerInfo{
			Name: r.Name, Host: r.Host, PID: r.PID, Version: r.Version, Queues: r.Queues, Kinds: r.Kinds,
			Concurrency: r.Concurrency, Busy: r.Busy, Waiting: r.Waiting, Lease: r.Lease, Grace: r.Grace,
			Listens: r.Listens, Poll: r.Poll, ClaimError: r.ClaimError, Refused: r.Refused, RefusedCount: r.RefusedCount, Slots: r.Slots,
		},
		Age: r.Age, ClaimAge: r.ClaimAge, DrainAge: r.DrainAge, Stopped: r.Stopped,
	}
}

// ReportAnswer says that the report is recorded.
type ReportAnswer struct{}

// WorkersAnswer has the workers that have reported themselves.
type WorkersAnswer struct {
	Workers []driver.WorkerRecord `json:"workers"`
}

// RunsRequest asks for the jobs that workers hold.
type RunsRequest struct {
	Most    int      `json:"most,omitempty"` // of each worker; 0 means 100
	Workers []string `json:"workers,omitempty"`
}

// RunsAnswer has the jobs that workers hold.
type RunsAnswer struct {
	Runs []driver.RunningJob `json:"runs"`
}

// RulesAnswer has the rules of the queues, and the kinds that are paused in all of them.
type RulesAnswer struct {
	Rules       []queue.Rule `json:"rules"`
	PausedKinds []string     `json:"paused_kinds"`
}

// DeathsRequest asks which jobs died by a crash.
type DeathsRequest struct {
	Queues []string `json:"queues"`
}

// Dead is a job that was reclaimed in its last attempt.
type Dead struct {
	ID          int64     `json:"id"`
	Queue       string    `json:"queue"`
	Kind        string    `json:"kind"`
	Priority    int32     `json:"priority"`
	ScheduledAt time.Time `json:"scheduled_at,omitzero"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	Attempt     int       `json:"attempt"`
	MaxAttempts int       `json:"max_attempts"`
	Key         string    `json:"key,omitempty"`
	Group       string    `json:"group,omitempty"`
	Ordered     bool      `json:"ordered,omitempty"`
	LastError   string    `json:"last_error,omitempty"`
}

// DeadOf returns what the API sends of a reclaimed job.
func DeadOf(j *queue.Job) Dead {
	d := Dead{
		ID: j.ID, Queue: j.Queue, Kind: j.Kind, Priority: j.Priority, ScheduledAt: j.ScheduledAt, CreatedAt: j.CreatedAt,
		Attempt: j.Attempt, MaxAttempts: j.MaxAttempts, Key: j.Key, Group: j.Group, Ordered: j.Ordered, LastError: j.LastError,
	}
	SetUTC(&d.ScheduledAt, &d.CreatedAt)
	return d
}

// Job returns the job as Reclaim returns it.
func (d Dead) Job() *queue.Job {
	return &queue.Job{
		ID: d.ID, Queue: d.Queue, Kind: d.Kind, Priority: d.Priority, ScheduledAt: d.ScheduledAt, CreatedAt: d.CreatedAt,
		Attempt: d.Attempt, MaxAttempts: d.MaxAttempts, Key: d.Key, Group: d.Group, Ordered: d.Ordered, LastError: d.LastError,
	}
}

// DeathsAnswer has jobs that died by a crash. No client is told of them again.
type DeathsAnswer struct {
	Jobs []Dead `json:"jobs"`
}
