package queue

import (
	"encoding/json"
	"time"
)

// JobChange says what [driver.Editor] changes. Zero fields stay as they are; at least one must be
// set.
type JobChange struct {
	// RunNow makes jobs due now, after the jobs of their priority that are due. A held job becomes
	// pending.
	RunNow bool
	// ScheduledAt is when jobs become due, by the database's clock: a year from 1970 to 9999. Only
	// one of RunNow, ScheduledAt and Delay may be set.
	ScheduledAt time.Time
	// Delay is how long from now jobs become due: at most 100 years.
	Delay time.Duration
	// Priority is the new priority; nil means that it stays. Ordered jobs keep theirs.
	Priority *int32
	// Payload is any JSON value, as in [Job]. Middleware that encodes payloads does not see it, so a
	// job with an [EncodingHeader] is dead at its next run.
	Payload json.RawMessage
	// Queue moves jobs to that queue: 1 to 200 printable ASCII bytes.
	Queue string
	// MaxAttempts is the new limit, from 1 to 1,000,000. A job that has used as many already runs
	// once more.
	MaxAttempts int
}

// Check returns an [*InvalidError] that names the first bad field, or "JobChange" if none is set.
// It checks as [Job.Check] does. Backends call it before they change any job.
func (c JobChange) Check(maxPayload int) error {
	if !c.RunNow && c.ScheduledAt.IsZero() && c.Delay == 0 && c.Priority == nil && c.Payload == nil && c.Queue == "" && c.MaxAttempts == 0 {
		return invalid("JobChange", "empty: set at least one field")
	}
	if c.RunNow && (!c.ScheduledAt.IsZero() || c.Delay != 0) {
		return invalid("RunNow", "beside ScheduledAt or Delay: set one of them")
	}
	payload := c.Payload
	if payload == nil {
		payload = json.RawMessage("null")
	}
	job := Job{Kind: "kind", Queue: c.Queue, Payload: payload, ScheduledAt: c.ScheduledAt, Delay: c.Delay, MaxAttempts: c.MaxAttempts}
	if c.Priority != nil {
		job.Priority = *c.Priority
	}
	return job.Check(maxPayload)
}
