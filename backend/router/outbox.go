package router

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Outbox is the queue of the home for jobs on their way to other backends. Each job there has the
// Kind, Payload, Priority and Headers of the job that it stands for, and a header with the rest.
const Outbox = "errand-outbox"

const (
	// outboxHeader is the header of a job in the outbox with its address.
	outboxHeader = "errand-outbox"
	// outboxAttempts is how often a job of the outbox is sent: while its backend does not answer.
	outboxAttempts = 1_000_000
)

// address is what a job of the outbox says of the job that it stands for, besides what both have.
type address struct {
	Source      string            `json:"source"`  // drawn at random
	Backend     int64             `json:"backend"` // the number of the one that has the queue
	Queue       string            `json:"queue"`
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
}

// outboxJob returns the job to write to the outbox in the place of job.
func (t *target) outboxJob(job *queue.Job) (*queue.Job, error) {
	if _, ok := driver.As[driver.Receiver](t.Queue); !ok {
		return nil, invalid("DB", "queue %q is not in this database, and its backend (%T) receives no jobs from an outbox: pass nil", job.Queue, t.Queue)
	}
	text, err := json.Marshal(address{
		Source: rand.Text(), Backend: t.number, Queue: job.Queue, Priority: job.Priority, ScheduledAt: job.ScheduledAt, Delay: job.Delay,
		MaxAttempts: job.MaxAttempts, Key: job.Key, OnDuplicate: job.OnDuplicate, MaxDelay: job.MaxDelay,
		Group: job.Group, Ordered: job.Ordered, Cost: job.Cost,
	})
	if err != nil {
		return nil, err
	}
	headers := make(map[string]string, len(job.Headers)+1)
	maps.Copy(headers, job.Headers)
	headers[outboxHeader] = string(text)
	out := &queue.Job{
		Queue: Outbox, Kind: job.Kind, Payload: job.Payload, Priority: job.Priority, Headers: headers, MaxAttempts: outboxAttempts,
	}
	if out.Group = orderOf(job); out.Group != "" {
		out.Ordered, out.Priority = true, 0
	}
	return out, out.Check(len(job.Payload))
}

// orderOf returns the group of the outbox in which the job is forwarded in order, or "" if its
// order follows from its due time. Of jobs that replace each other the last one must arrive last.
// Lines of different queues do not wait for each other: their backends may differ.
func orderOf(job *queue.Job) string {
	line := ""
	switch {
	case job.Ordered:
		line = "group\x00" + job.Queue + "\x00" + job.Group
	case job.OnDuplicate == queue.Replace:
		line = "key\x00" + job.Queue + "\x00" + job.Key
	default:
		return ""
	}
	sum := sha256.Sum256([]byte(line))
	return "line " + hex.EncodeToString(sum[:16])
}

// InOutbox returns the job that out stands for, a job of the queue [Outbox] such as OnDead gets: as
// it was enqueued, with its own Queue. Its ID, Attempt and LastError are those of out. The error
// says why out is none.
func InOutbox(out *queue.Job) (*queue.Job, error) {
	if out == nil {
		return nil, errors.New("router: the job is nil")
	}
	t, _, err := transferOf(out)
	if err != nil {
		return nil, err
	}
	t.Job.ID, t.Job.Attempt, t.Job.LastError = out.ID, out.Attempt, out.LastError
	return t.Job, nil
}

// transferOf returns the job that a job of the outbox stands for, and the number of its backend:
// the one that had the queue for the program that enqueued it. Programs with other routes send it
// there as well, or it would be received twice after a crash, or wait where nobody looks for it.
func transferOf(out *queue.Job) (t driver.Transfer, backend int64, err error) {
	var a address
	text, ok := out.Headers[outboxHeader]
	if !ok {
		return t, 0, fmt.Errorf("router: no header %q", outboxHeader)
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return t, 0, fmt.Errorf("router: header %q: %w", outboxHeader, err)
	}
	if a.Source == "" {
		return t, 0, fmt.Errorf("router: header %q: no source", outboxHeader)
	}
	job := &queue.Job{
		Queue: a.Queue, Kind: out.Kind, Payload: out.Payload, Priority: a.Priority, MaxAttempts: a.MaxAttempts,
		Key: a.Key, OnDuplicate: a.OnDuplicate, MaxDelay: a.MaxDelay, Group: a.Group, Ordered: a.Ordered, Cost: a.Cost,
		CreatedAt: out.CreatedAt, ScheduledAt: a.ScheduledAt, Delay: a.Delay,
	}
	if a.OnDuplicate != queue.Replace && a.ScheduledAt.IsZero() { // one that replaces is put off from its arrival
		job.ScheduledAt, job.Delay = out.CreatedAt.Add(a.Delay), 0
	}
	if job.Headers = maps.Clone(out.Headers); len(job.Headers) > 1 {
		delete(job.Headers, outboxHeader)
	} else {
		job.Headers = nil
	}
	return driver.Transfer{Source: a.Source, Job: job}, a.Backend, nil
}
