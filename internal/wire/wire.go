// Package wire has the bodies of the gateway's HTTP API, which package gateway serves and
// backend/remote calls. Their JSON names will not change. gateway/openapi.json describes them.
package wire

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Job is a job to enqueue: the fields of [queue.Job] that a caller may set.
type Job struct {
	Queue       string            `json:"queue,omitempty"`
	Kind        string            `json:"kind"`
	Payload     json.RawMessage   `json:"payload,omitempty"`
	Priority    int32             `json:"priority,omitempty"`
	ScheduledAt time.Time         `json:"scheduled_at,omitzero"`
	Delay       time.Duration     `json:"delay_ns,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	Key         string            `json:"key,omitempty"`
	OnDuplicate queue.OnDuplicate `json:"on_duplicate,omitempty"`
	MaxDelay    time.Duration     `json:"max_delay_ns,omitempty"`
	Group       string            `json:"group,omitempty"`
	Ordered     bool              `json:"ordered,omitempty"`
	Cost        int               `json:"cost,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
}

// JobOf returns what the API sends of j.
func JobOf(j *queue.Job) Job {
	at := j.ScheduledAt
	if !at.IsZero() {
		at = at.UTC() // RFC 3339 has no seconds in the offset of a zone
	}
	return Job{
		Queue: j.Queue, Kind: j.Kind, Payload: j.Payload, Priority: j.Priority, ScheduledAt: at, Delay: j.Delay,
		MaxAttempts: j.MaxAttempts, Key: j.Key, OnDuplicate: j.OnDuplicate, MaxDelay: j.MaxDelay,
		Group: j.Group, Ordered: j.Ordered, Cost: j.Cost, Headers: j.Headers,
	}
}

// ToEnqueue returns the job for a backend.
func (j Job) ToEnqueue() *queue.Job {
	return &queue.Job{
		Queue: j.Queue, Kind: j.Kind, Payload: j.Payload, Priority: j.Priority, ScheduledAt: j.ScheduledAt, Delay: j.Delay,
		MaxAttempts: j.MaxAttempts, Key: j.Key, OnDuplicate: j.OnDuplicate, MaxDelay: j.MaxDelay,
		Group: j.Group, Ordered: j.Ordered, Cost: j.Cost, Headers: j.Headers,
	}
}

// EnqueueRequest asks to write jobs: all of them or none.
type EnqueueRequest struct {
	Jobs []Job `json:"jobs"`
	// IdempotencyKey is for programs that cannot set the header Idempotency-Key.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// Enqueued is what became of a job of an EnqueueRequest.
type Enqueued struct {
	ID        int64 `json:"id"`
	Duplicate bool  `json:"duplicate,omitempty"`
	Replaced  bool  `json:"replaced,omitempty"`
}

// EnqueueAnswer has one element for each job of the request, in its order.
type EnqueueAnswer struct {
	Jobs []Enqueued `json:"jobs"`
}

// ClaimRequest asks for due jobs.
type ClaimRequest struct {
	Queues []string      `json:"queues"`
	Kinds  []string      `json:"kinds,omitempty"`
	Limit  int           `json:"limit,omitempty"` // 0 means 1
	Ahead  int           `json:"ahead,omitempty"`
	Bytes  int           `json:"bytes,omitempty"`
	Lease  time.Duration `json:"lease_ns,omitempty"` // 0 means 30 s
	Worker string        `json:"worker"`
	// Wait is how long the gateway waits for a job if none is due.
	Wait time.Duration `json:"wait_ns,omitempty"`
	// Poll says that the worker has claimed without success, and was not woken since.
	Poll bool `json:"poll,omitempty"`
}

// Claimed is a job that the client holds now.
type Claimed struct {
	queue.Job
	Unreadable string `json:"unreadable,omitempty"`
	// LeaseEnds is about when the lease ends, by the gateway's clock.
	LeaseEnds time.Time `json:"lease_ends"`
}

// ClaimAnswer has the claimed jobs in the order in which they are to run.
type ClaimAnswer struct {
	Jobs []Claimed `json:"jobs"`
}

// Held names a claimed job and proves that the client holds it.
type Held struct {
	ID     int64  `json:"id"`
	Fence  int64  `json:"fence"`
	Worker string `json:"worker"`
}

// HeldOf returns what the API sends of a claimed job.
func HeldOf(j *queue.Job) Held { return Held{ID: j.ID, Fence: j.Fence, Worker: j.Worker} }

// Job returns the job for Extend and Settle.
func (h Held) Job() *queue.Job { return &queue.Job{ID: h.ID, Fence: h.Fence, Worker: h.Worker} }

// ExtendRequest asks to extend leases.
type ExtendRequest struct {
	Lease time.Duration `json:"lease_ns,omitempty"` // 0 means 30 s
	Jobs  []Held        `json:"jobs"`
}

// ExtendAnswer names the jobs that the client no longer holds, and those that it is asked to
// cancel.
type ExtendAnswer struct {
	Lost  []Held `json:"lost"`
	Asked []Held `json:"asked"`
}

// Outcome is what a run of a job came to.
type Outcome struct {
	ID     int64  `json:"id"`
	Fence  int64  `json:"fence"`
	Worker string `json:"worker"`
	Action string `json:"action"` // done, retry, dead, release or cancel
	// Delay is how long until the job is due again. If a retry has none, the gateway takes the
	// default back-off after Attempt runs.
	Delay    *time.Duration  `json:"delay_ns,omitempty"`
	Attempt  int             `json:"attempt,omitempty"`
	Error    string          `json:"error,omitempty"`
	Stack    string          `json:"stack,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
	Throttle bool            `json:"throttle,omitempty"`
}

// SettleRequest asks to record outcomes.
type SettleRequest struct {
	Outcomes []Outcome `json:"outcomes"`
}

// SettleAnswer names the jobs that the client no longer held, and those whose outcomes are not
// recorded because a transaction has locked them, or because a part of the backend has failed: the
// client sends these once more.
type SettleAnswer struct {
	Lost   []Held `json:"lost"`
	Locked []Held `json:"locked,omitempty"`
}

// Progress is how far a held job is.
type Progress struct {
	ID     int64           `json:"id"`
	Fence  int64           `json:"fence"`
	Worker string          `json:"worker"`
	Value  json.RawMessage `json:"value"`
}

// ProgressRequest asks to record progress.
type ProgressRequest struct {
	Progress []Progress `json:"progress"`
}

// ProgressAnswer says that the progress of the jobs that the client holds is recorded.
type ProgressAnswer struct{}

// SleepRequest announces that a worker is about to wait for jobs of these queues.
type SleepRequest struct {
	Queues []string `json:"queues"`
	Worker string   `json:"worker"`
}

// SleepAnswer says when the next scheduled job is due.
type SleepAnswer struct {
	Next time.Duration `json:"next_ns"` // below 0: no job is scheduled
}

// WaitRequest asks to be answered when jobs may have become due.
type WaitRequest struct {
	Queues []string      `json:"queues"`
	Kinds  []string      `json:"kinds,omitempty"`
	Worker string        `json:"worker"`
	Wait   time.Duration `json:"wait_ns,omitempty"` // 0 means 30 s
}

// WaitAnswer says whether the worker should claim.
type WaitAnswer struct {
	Woken bool `json:"woken"`
}

// CountsAnswer has the number of jobs of each queue and status.
type CountsAnswer struct {
	Counts []queue.StatusCount `json:"counts"`
}

// BacklogsAnswer has the queues with due jobs that wait.
type BacklogsAnswer struct {
	Backlogs []driver.Backlog `json:"backlogs"`
}

// Record is a job as it is stored.
type Record struct {
	queue.Record
	Unreadable string `json:"unreadable,omitempty"`
}

// JobsAnswer is a page of jobs.
type JobsAnswer struct {
	Jobs []Record `json:"jobs"`
	Next int64    `json:"next,omitempty"` // the before of the next page; 0 for the last page
}

// JobAnswer is one job.
type JobAnswer struct {
	Job Record `json:"job"`
}

// ResultAnswer is what is known of a job that somebody waits for.
type ResultAnswer struct {
	Result queue.Result `json:"result"`
}

// CheckAnswer says that the gateway can serve.
type CheckAnswer struct{}

// ErrorAnswer is the body of every answer that is no success.
type ErrorAnswer struct {
	Error Error `json:"error"`
}

// Error says what is wrong.
type Error struct {
	Code    string `json:"code"` // one of the Code constants
	Message string `json:"message"`
	// Field is the field of the request that is wrong, such as "jobs[2].payload".
	Field string `json:"field,omitempty"`
	// Job and Delay are of the code slow: the job, and for how long it was released.
	Job   int64         `json:"job,omitempty"`
	Delay time.Duration `json:"delay_ns,omitempty"`
}

// The codes of errors.
const (
	CodeInvalid      = "invalid"          // a field has a bad value; see Field
	CodeMalformed    = "malformed"        // the body is no JSON of this request
	CodeToken        = "unauthenticated"  // no token, or none that the gateway knows
	CodeForbidden    = "forbidden"        // the token is not for this operation, queue or worker
	CodeNotFound     = "not_found"        // no such job, or no such path
	CodeMethod       = "method"           // the path has other methods
	CodeConflict     = "conflict"         // the idempotency key came with different jobs
	CodeTooLarge     = "too_large"        // the body, or a list in it, is too long
	CodeMediaType    = "media_type"       // the body is not announced as application/json
	CodeOther        = "other_gateway"    // not the gateway that the header Errand-Gateway names
	CodeTooMany      = "too_many_waiting" // too many clients wait; see Retry-After
	CodeRate         = "rate"             // the client has sent too much in a second; see Retry-After
	CodeUnknown      = "unknown"          // not known whether the jobs were written
	CodeSlow         = "slow"             // a payload was not read in time; see Job and Delay
	CodeInternal     = "internal"         // the answer cannot be written as JSON
	CodeSetup        = "setup"            // the database is not set up
	CodeNotSupported = "not_supported"    // the gateway's backend lacks this capability
	CodeDraining     = "draining"         // this gateway ends; connect to a different one
	CodeUnavailable  = "unavailable"      // the database did not answer, or with an error
)

// Status is the HTTP status of each code.
var Status = map[string]int{
	CodeInvalid:      http.StatusBadRequest,
	CodeMalformed:    http.StatusBadRequest,
	CodeToken:        http.StatusUnauthorized,
	CodeForbidden:    http.StatusForbidden,
	CodeNotFound:     http.StatusNotFound,
	CodeMethod:       http.StatusMethodNotAllowed,
	CodeConflict:     http.StatusConflict,
	CodeTooLarge:     http.StatusRequestEntityTooLarge,
	CodeMediaType:    http.StatusUnsupportedMediaType,
	CodeOther:        http.StatusMisdirectedRequest,
	CodeTooMany:      http.StatusTooManyRequests,
	CodeRate:         http.StatusTooManyRequests,
	CodeUnknown:      http.StatusInternalServerError,
	CodeSlow:         http.StatusInternalServerError,
	CodeInternal:     http.StatusInternalServerError,
	CodeSetup:        http.StatusInternalServerError,
	CodeNotSupported: http.StatusNotImplemented,
	CodeDraining:     http.StatusServiceUnavailable,
	CodeUnavailable:  http.StatusServiceUnavailable,
}

// HeaderGateway is the header in which a gateway names itself in its answers. A request to enqueue
// may name in it the only gateway that is to take it.
const HeaderGateway = "Errand-Gateway"

// DefaultLease is the lease of a request that names none.
const DefaultLease = 30 * time.Second

// ClaimedOf returns what the API sends of a claimed job.
func ClaimedOf(j *queue.Job, leaseEnds time.Time) Claimed {
	c := Claimed{Job: *j, LeaseEnds: leaseEnds.UTC().Round(0)}
	c.Payload, c.Unreadable = readable(j)
	SetUTC(&c.ScheduledAt, &c.CreatedAt)
	return c
}

// RecordOf returns what the API sends of a stored job.
func RecordOf(r queue.Record) Record {
	w := Record{Record: r}
	w.Payload, w.Unreadable = readable(&r.Job)
	SetUTC(&w.ScheduledAt, &w.CreatedAt, &w.StartedAt, &w.FinishedAt, &w.LockedAt, &w.LeaseEnds, &w.RedrivenAt, &w.CancelAt)
	return w
}

// SetUTC sets the times to UTC, but for the zero time. In its zone a time of the year 9999 may be
// of 10000, which JSON cannot tell.
func SetUTC(times ...*time.Time) {
	for _, at := range times {
		if !at.IsZero() {
			*at = at.UTC()
		}
	}
}

// readable returns a job's payload, unless it is no JSON: it would spoil the whole answer.
func readable(j *queue.Job) (payload json.RawMessage, unreadable string) {
	unreadable = queue.ErrorText(j.Unreadable)
	if j.Payload != nil && !json.Valid(j.Payload) {
		return nil, unreadable
	}
	return j.Payload, unreadable
}
