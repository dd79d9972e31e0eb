package queue

import (
	"cmp"
	"encoding/json"
	"math"
	"time"

	"github.com/errandhq/errand/internal/check"
)

// Job is one unit of work: a kind, a payload, and when and how often it may run. [Kind.New] makes
// one. The caller may change its fields until Enqueue is called. Only Kind is required. A Job is
// not safe for concurrent changes.
type Job struct {
	// ID is the job's number, from 1, unique in the database. Filled in by Enqueue and Claim.
	ID int64 `json:"id"`
	// Queue is the queue of the job: 1 to 200 printable ASCII bytes. "" means [DefaultQueue].
	Queue string `json:"queue"`
	// Kind names the handler that runs the job: 1 to 200 printable ASCII bytes. Required.
	Kind string `json:"kind"`
	// Payload is any JSON value; nil means null. A backend may store it in a normal form, so Claim
	// may return different bytes with the same meaning. Postgres stores jsonb: no white space,
	// sorted keys, the last of duplicate keys, no exponents.
	Payload json.RawMessage `json:"payload"`
	// Priority orders the jobs of a queue: lower runs first. 0 is the default; below 0 is allowed.
	// The highest is 2,147,483,646.
	Priority int32 `json:"priority"`
	// Ordered makes the jobs of a Group that have it run one at a time, in the order of their IDs. The
	// first job of a group that is pending or running blocks the jobs behind it: until it has ended,
	// also while it waits for its ScheduledAt, for a retry, or for a worker that handles its Kind. It
	// needs a Group and a Priority of 0: claims take the ordered jobs of a queue after its other jobs,
	// and their groups take turns. IDs are drawn when jobs are enqueued, so a transaction that commits
	// late adds lower IDs than the IDs of jobs that run already; the jobs with lower IDs run next.
	Ordered bool `json:"ordered,omitempty"`
	// ScheduledAt is when the job becomes due, by the database's clock. Zero means at once, or
	// after Delay. Only one of ScheduledAt and Delay may be set. Claim fills it in.
	ScheduledAt time.Time `json:"scheduled_at,omitzero"`
	// Delay is how long after Enqueue's statement the job becomes due: 0, which means at once, up
	// to 100 years. Claim leaves it 0.
	Delay time.Duration `json:"delay_ns,omitempty"`
	// MaxAttempts is how many attempts the job has before it is dead, up to 1,000,000. 0 means
	// [DefaultMaxAttempts].
	MaxAttempts int `json:"max_attempts"`
	// Key is unique among the live (pending, running or held) jobs of a queue. OnDuplicate says
	// what Enqueue does if a live job has it. At most 500 bytes; "" means no key.
	Key string `json:"key,omitempty"`
	// OnDuplicate says what Enqueue does if a live job of the queue has the job's Key. The zero
	// value is [Keep]. [Replace] needs a Key. Claim leaves it "".
	OnDuplicate OnDuplicate `json:"on_duplicate,omitempty"`
	// MaxDelay bounds how long jobs that [Replace] a pending job may put it off: the job is due at
	// most MaxDelay after the first of them was enqueued. It needs Replace and a Delay that is not
	// longer. 0 means no bound; at most 100 years. Claim leaves it 0.
	MaxDelay time.Duration `json:"max_delay_ns,omitempty"`
	// Group is what the job shares with other jobs of its queue, such as their tenant: a [Rule] can
	// limit how many jobs of one group run at once, and lets groups take turns. Text of at most 200
	// bytes; "" means no group.
	Group string `json:"group,omitempty"`
	// Cost is how many tokens of a [Rate] the job takes, up to 1,000,000. 0 means 1. A job whose Cost
	// is above the rate's Burst waits until the burst is full, and later jobs wait for the rest. Claim
	// leaves it 0.
	Cost int `json:"cost,omitempty"`
	// Headers are data beside the payload, such as a trace, of at most [MaxHeaders] bytes. nil
	// means none.
	Headers map[string]string `json:"headers,omitempty"`

	// Attempt is the number of this run, from 1. Released runs do not count. In a [Record] of a job
	// that does not run it is the number of runs so far. Filled in by Claim.
	Attempt int `json:"attempt"`
	// Fence is the number that the claim drew. Extend and Settle present it. Filled in by Claim.
	Fence int64 `json:"fence,omitempty"`
	// Worker is the name of the job's holder. Filled in by Claim.
	Worker string `json:"worker,omitempty"`
	// CreatedAt is when the job was enqueued. Filled in by Claim.
	CreatedAt time.Time `json:"created_at,omitzero"`
	// LastError is the error text of the last run that failed; "" means none. Filled in by Claim.
	LastError string `json:"last_error,omitempty"`
	// Unreadable is why the job's payload or headers cannot be read; nil means that they can. A
	// [engine.Worker] does not run such a job, but settles it as [Dead] with this error. Filled in by
	// Claim and by an [driver.Inspector].
	Unreadable error `json:"-"`
	// Limited is true if a [Rule] limits how many jobs of the queue run or start. The job's end leaves
	// a place for another job, so an [engine.Worker] that has settled it claims at once. Filled in by
	// Claim.
	Limited bool `json:"limited,omitempty"`
	// Duplicate is true if the job was not written because a live job of the queue has its Key. ID
	// is then the live job's. Filled in by Enqueue.
	Duplicate bool `json:"duplicate,omitempty"`
	// Replaced is true if the job was written in the place of a pending job with its Key. ID is
	// then that job's. Filled in by Enqueue.
	Replaced bool `json:"replaced,omitempty"`

	err *InvalidError // why Kind.New could not build the job; Check reports it
}

// OnDuplicate is what Enqueue does with a job if a live job of its queue has its Key.
type OnDuplicate string

const (
	// Keep leaves the live job as it is. The new job is not written, and is marked Duplicate.
	Keep OnDuplicate = ""

	// Replace makes the new job take the place of the live one.
	//
	// A pending or held job keeps its ID, status and CreatedAt. It gets everything else from the
	// new job: Kind, Payload, Priority, due time, MaxAttempts, Group, Cost and Headers. It has no
	// attempts used and no last error. If it has been tried before, its CreatedAt is the time of the
	// call. The new job is marked Replaced. If the new job has no ScheduledAt and no Delay, or if
	// MaxDelay is over, a job that is due keeps its due time, and so its place in the queue.
	//
	// A running job gives its Key up and is otherwise left alone: what was enqueued while it runs
	// is not lost. The new job is written beside it with an ID of its own, and may run before the
	// other has ended. A job counts as running from its claim on, even while it waits for a slot of
	// its worker. It has no Key from then on, so if it is retried or released, it runs as well.
	Replace OnDuplicate = "replace"
)

const (
	// DefaultMaxAttempts is the number of attempts of a job whose MaxAttempts is 0.
	DefaultMaxAttempts = 5
	// DefaultMaxPayload is the longest payload, in bytes, that a backend accepts by default.
	DefaultMaxPayload = 1 << 20
	// EncodingHeader is the header by which middleware that encodes payloads names what it has done,
	// as middleware.Encrypt and middleware.Compress do. Middleware that decodes removes it.
	EncodingHeader = "errand-encoding"
	// MaxHeaders is how many bytes the names and values of a job's Headers may have in total.
	MaxHeaders = 64 << 10

	maxKey  = 500
	maxCost = 1_000_000
)

// Check returns an [*InvalidError] that names the first bad field. It returns nil if every backend
// can write the job. maxPayload is the longest payload in bytes; 0 means [DefaultMaxPayload]. A nil
// job is an error. Backends check all jobs of a call before they write any.
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
	if j.MaxAttempts < 0 || j.MaxAttempts > check.MaxAttempts {
		return invalid("MaxAttempts", "%d: between 0 (the default) and %d", j.MaxAttempts, check.MaxAttempts)
	}
	if len(j.Key) > maxKey {
		return invalid("Key", "%d bytes: at most %d", len(j.Key), maxKey)
	}
	if err := checkText("Key", j.Key); err != nil {
		return err
	}
	if err := checkGroup(j.Group); err != nil {
		return err
	}
	if j.Cost < 0 || j.Cost > maxCost {
		return invalid("Cost", "%d: between 0 (for 1) and %d", j.Cost, maxCost)
	}
	if err := j.checkOnDuplicate(); err != nil {
		return err
	}
	if err := j.checkOrder(); err != nil {
		return err
	}
	return checkHeaders(j.Headers)
}

// checkOnDuplicate checks OnDuplicate and MaxDelay, after Key and Delay.
func (j *Job) checkOnDuplicate() error {
	switch {
	case j.OnDuplicate == Keep && j.MaxDelay == 0:
		return nil
	case j.OnDuplicate != Keep && j.OnDuplicate != Replace:
		return invalid("OnDuplicate", "%.40q: Keep or Replace", string(j.OnDuplicate))
	case j.OnDuplicate == Keep:
		return invalid("MaxDelay", "%v without OnDuplicate: Replace", j.MaxDelay)
	case j.Key == "":
		return invalid("OnDuplicate", "Replace without a Key")
	case j.MaxDelay < 0 || j.MaxDelay > check.MaxDelay:
		return invalid("MaxDelay", "%v: between 0 and %v", j.MaxDelay, check.MaxDelay)
	case j.MaxDelay != 0 && j.Delay == 0:
		return invalid("MaxDelay", "%v without a Delay", j.MaxDelay)
	case j.MaxDelay != 0 && j.MaxDelay < j.Delay:
		return invalid("MaxDelay", "%v: shorter than the Delay, %v", j.MaxDelay, j.Delay)
	}
	return nil
}

// checkTimes checks Delay and ScheduledAt.
func (j *Job) checkTimes() error {
	if j.Delay < 0 || j.Delay > check.MaxDelay {
		return invalid("Delay", "%v: between 0 and %v", j.Delay, check.MaxDelay)
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

// checkHeaders checks the text and the length of headers.
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

// checkName returns an error for a name that is not 1 to 200 printable ASCII bytes.
func checkName(field, name string) error { return asError(field, check.Name(name)) }

// checkText returns an error for text that SQL databases cannot store.
func checkText(field, s string) error { return asError(field, check.Text(s)) }

// checkGroup returns an error for a group that no job can have.
func checkGroup(group string) error { return asError("Group", check.Group(group)) }

// asError returns an [*InvalidError], or nil if there is no problem.
func asError(field, problem string) error {
	if problem == "" {
		return nil
	}
	return &InvalidError{Field: field, Problem: problem}
}

// checkOrder returns an error for an ordered job that has no group, or a priority.
func (j *Job) checkOrder() error {
	switch {
	case j.Ordered && j.Group == "":
		return invalid("Ordered", "without a Group")
	case j.Ordered && j.Priority != 0:
		return invalid("Priority", "%d of an ordered job: must be 0", j.Priority)
	case j.Priority == math.MaxInt32:
		return invalid("Priority", "%d: at most %d", j.Priority, math.MaxInt32-1)
	}
	return nil
}

// checkTexts returns an error for a Queue, Kind or Key that databases cannot compare with others.
// It accepts a name that no job of errand has: a row that another program has written may have it.
func checkTexts(queue, kind, key string) error {
	return cmp.Or(checkText("Queue", queue), checkText("Kind", kind), checkText("Key", key))
}
