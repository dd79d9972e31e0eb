package queue

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Job is one unit of work: a kind, a payload, and when and how often it may run.
// [Kind.New] makes one; its fields may be changed until it is enqueued.
type Job struct {
	// ID is the job's number, unique in the database. Enqueue fills it in.
	ID int64
	// Queue is the named line that the job waits in; "" means [DefaultQueue].
	Queue string
	// Kind is the name of the work; required.
	Kind string
	// Payload is any JSON value; nil means null. A backend may store it in a
	// normal form (Postgres keeps jsonb: no white space, keys sorted, the last of
	// duplicate keys, no exponents), so it may come back with other bytes and the same meaning.
	Payload json.RawMessage
	// Priority orders jobs within a queue: lower runs first; 0 is the default.
	Priority int32
	// ScheduledAt is when the job becomes due, by the database's clock; zero
	// means at once. At most one of ScheduledAt and Delay may be set.
	ScheduledAt time.Time
	// Delay is how long after Enqueue's statement the job becomes due; 0 means
	// at once. Claim fills in ScheduledAt and leaves Delay 0.
	Delay time.Duration
	// MaxAttempts is how often the job may be started before it is dead; 0 means
	// [DefaultMaxAttempts].
	MaxAttempts int
	// Key, where not "", is held by at most one live (pending or running) job of
	// a queue: another with the same key is not written but marked Duplicate.
	Key string
	// Headers carry what is not the work itself, such as a trace; nil means none.
	Headers map[string]string

	// Attempt is the number of this run, from 1. Filled in by Claim.
	Attempt int
	// Fence is the number that the claim drew. Filled in by Claim.
	Fence int64
	// Worker is the name of the worker that holds the job. Filled in by Claim.
	Worker string
	// CreatedAt is when the job was enqueued. Filled in by Claim.
	CreatedAt time.Time
	// LastError is the error text of the run before this one. Filled in by Claim.
	LastError string
	// Unreadable is why the job's payload or headers cannot be read, such as a payload that the
	// database cannot show; nil means that they can. A [Worker] does not run such a job, but
	// settles it [Dead] with this error. Filled in by Claim.
	Unreadable error
	// Duplicate says that the job was not written because a live job of the queue
	// has its Key; ID is that job's. Filled in by Enqueue.
	Duplicate bool

	err error // why Kind.New could not build the job; Check reports it
}

const (
	// DefaultMaxAttempts is how often a job that does not say may be started.
	DefaultMaxAttempts = 5
	// DefaultMaxPayload is the longest payload, in bytes, that a backend accepts
	// unless its options say otherwise.
	DefaultMaxPayload = 1 << 20
	// MaxHeaders is how many bytes the names and values of a job's Headers may have
	// together.
	MaxHeaders = 64 << 10

	maxAttemptsLimit = 1_000_000
	maxKey           = 500
	maxDelay         = 100 * 365 * 24 * time.Hour
)

// Check returns an [*InvalidError] that names the first bad field, or nil: what
// passes can be written by every backend. maxPayload is the longest payload in
// bytes; 0 means [DefaultMaxPayload]. A nil job is an error too. Backends call
// it for every job before they write any.
func (j *Job) Check(maxPayload int) error {
	if j == nil {
		return invalid("Job", "nil")
	}
	if j.err != nil {
		return j.err
	}
	if j.Queue != "" {
		if err := checkName("Queue", j.Queue); err != nil {
			return err
		}
	}
	if err := checkName("Kind", j.Kind); err != nil {
		return err
	}
	if maxPayload == 0 {
		maxPayload = DefaultMaxPayload
	}
	if err := checkPayload(j.Payload, maxPayload); err != nil {
		return err
	}
	if err := j.checkTimes(); err != nil {
		return err
	}
	if j.MaxAttempts < 0 || j.MaxAttempts > maxAttemptsLimit {
		return invalid("MaxAttempts", "%d: between 0 (the default) and %d", j.MaxAttempts, maxAttemptsLimit)
	}
	if len(j.Key) > maxKey {
		return invalid("Key", "%d bytes: at most %d", len(j.Key), maxKey)
	}
	if err := checkText("Key", j.Key); err != nil {
		return err
	}
	return checkHeaders(j.Headers)
}

func (j *Job) checkTimes() error {
	if j.Delay < 0 || j.Delay > maxDelay {
		return invalid("Delay", "%v: between 0 and %v", j.Delay, maxDelay)
	}
	if j.ScheduledAt.IsZero() {
		return nil
	}
	if j.Delay != 0 {
		return invalid("Delay", "%v beside ScheduledAt: set one of them", j.Delay)
	}
	if y := j.ScheduledAt.UTC().Year(); y < 1970 || y > 9999 {
		return invalid("ScheduledAt", "year %d: between 1970 and 9999", y)
	}
	return nil
}

func checkHeaders(headers map[string]string) error {
	size := 0
	for k, v := range headers {
		if err := checkText("Headers", k); err != nil {
			return err
		}
		if err := checkText("Headers", v); err != nil {
			return err
		}
		size += len(k) + len(v)
	}
	if size > MaxHeaders {
		return invalid("Headers", "%d bytes: at most %d", size, MaxHeaders)
	}
	return nil
}

// checkName holds names to 1 to 200 printable ASCII bytes, which every database,
// log and dashboard shows as they are.
func checkName(field, name string) error {
	if name == "" {
		return invalid(field, "empty")
	}
	if len(name) > 200 {
		return invalid(field, "%d bytes: at most 200", len(name))
	}
	for i := range len(name) {
		if name[i] < 0x20 || name[i] > 0x7e {
			return invalid(field, "byte %#02x at %d: printable ASCII only", name[i], i)
		}
	}
	return nil
}

// checkText refuses what no SQL text type can hold.
func checkText(field, s string) error {
	if !utf8.ValidString(s) {
		return invalid(field, "invalid UTF-8")
	}
	for i := range len(s) {
		if s[i] == 0 {
			return invalid(field, "NUL byte at %d", i)
		}
	}
	return nil
}
