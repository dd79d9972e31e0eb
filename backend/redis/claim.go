package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/queue"
)

// Claim implements [queue.Consumer]. It claims from the partitions of each queue one by one until
// it has enough. If there are several, it first asks all of them at once which have due jobs. Of a
// queue with a Spread above 1, each claim begins at another partition. It passes over partitions
// that do not answer, and returns their error if it has found no jobs. When it has jobs, the rest
// of it takes a tenth of the lease at most, and no more than a second.
func (b *Backend) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, failed("claim", err)
	}
	c := &claim{b: b, req: req, room: req.MaxBytes()}
	defer func() { b.noteTurns(req.Queues, c.turns, len(c.jobs) > 0) }()
	from := int(b.looks.Add(1) % uint32(b.opts.Spread))
	var errs failures
	places := b.look(ctx, req, b.placesOf(req.Queues, from), &errs)
	for _, at := range places {
		if len(c.jobs) >= req.Limit || c.isFull || ctx.Err() != nil {
			break
		}
		hadJobs := len(c.jobs) > 0
		errs.add(c.take(ctx, at))
		if !hadJobs && len(c.jobs) > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limits.RestOfClaim(req.Lease, lookTimeout))
			defer cancel()
		}
	}
	errs.add(ctx.Err())
	if err := errs.err(); len(c.jobs) == 0 && err != nil {
		return nil, setup(failed("claim", err))
	}
	return c.jobs, nil
}

// place is a partition of a queue.
type place struct {
	queue     string
	partition int

	now    int64     // the server's time at the look, in microseconds; 0 if there was none
	looked time.Time // when the look began
}

// until returns the server's time when ctx ends, in microseconds, or 0. A server that hangs, and
// goes on after that, must not claim: nobody would have its jobs. It is late by as long as the look
// took, so that no server refuses a claim in time.
func (at place) until(ctx context.Context) int64 {
	end, ok := ctx.Deadline()
	if !ok || at.now == 0 {
		return 0
	}
	return at.now + end.Sub(at.looked).Microseconds()
}

// placesOf returns the partitions of the queues, those of each from that one on.
func (b *Backend) placesOf(queues []string, from int) []place {
	var all []place
	for _, name := range queues {
		for i := range b.opts.Spread {
			all = append(all, place{queue: name, partition: b.partition(name, (from+i)%b.opts.Spread)})
		}
	}
	return all
}

// lookTimeout is how long a claim waits for partitions that do not answer, while others may have
// jobs, or when it has some.
const lookTimeout = time.Second

// look returns those of several places that have due jobs, or whose slots move. It adds to errs the
// errors of those that do not answer. One place is returned without asking.
func (b *Backend) look(ctx context.Context, req queue.ClaimRequest, places []place, errs *failures) (due []place) {
	if len(places) == 1 {
		return places
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	partitions, args := make([]int, len(places)), make([][]string, len(places))
	for i, at := range places {
		partitions[i], args[i] = at.partition, append([]string{at.queue}, req.Kinds...)
	}
	began := time.Now()
	for i, r := range b.callAll(ctx, "look", partitions, args) {
		now, failed := r.AsInt64()
		if isMoving := isRefused(r); isMoving || now > 0 {
			at := places[i]
			at.now, at.looked = now, began
			due = append(due, at)
		} else {
			errs.add(failed)
		}
	}
	return due
}

// claim is a Claim under way.
type claim struct {
	b      *Backend
	req    queue.ClaimRequest
	room   int // how many bytes more it may return
	fence  int64
	drawn  []int // the partitions that have drawn fence
	isFull bool
	jobs   []*queue.Job
	turns  map[string]turn // of the queues with rules
}

// take claims from one place.
func (c *claim) take(ctx context.Context, at place) error {
	args := append([]string{
		at.queue, c.req.Worker, micros(c.req.Lease), strconv.Itoa(min(c.req.Limit-len(c.jobs), maxBatch)), strconv.Itoa(c.room),
		strconv.FormatInt(c.fence, 10), bit(slices.Contains(c.drawn, at.partition)), bit(len(c.jobs) > 0), strconv.Itoa(c.req.Ahead),
		digits(at.until(ctx)),
	}, c.req.Kinds...)
	in, err := c.b.callFields(ctx, "claim", at.partition, args...)
	if err != nil {
		return err
	}
	c.fence, c.isFull = in.int(), in.int() == 1
	found := in.next()
	if in.err != nil {
		return in.err
	}
	rows, err := found.ToArray()
	if err != nil {
		return err
	}
	isLimited := len(in.fields) > 0 && c.noteRules(at.queue, in)
	if in.err != nil {
		return in.err
	}
	for i := range rows {
		if err := c.add(at, &rows[i], isLimited); err != nil {
			return err
		}
	}
	if len(rows) > 0 {
		c.drawn = append(c.drawn, at.partition)
	}
	return nil
}

// noteRules reads what the answer for a queue with rules ends with, or with more jobs that are due
// than a claim makes so. It reports whether rules bound how many jobs run or start.
func (c *claim) noteRules(name string, in *reader) (isLimited bool) {
	isLimited = in.int() == 1
	t := turn{hasMore: in.int() == 1}
	if wait := in.int(); wait >= 0 && in.err == nil {
		t.tokens = time.Now().Add(time.Duration(wait) * time.Microsecond)
	}
	if c.turns == nil {
		c.turns = make(map[string]turn)
	}
	c.turns[name] = c.turns[name].and(t)
	return isLimited
}

// add adds a claimed job.
func (c *claim) add(at place, row *rueidis.RedisMessage, isLimited bool) error {
	fields, err := row.ToArray()
	if err != nil {
		return err
	}
	in := &reader{fields: fields}
	j := c.b.readClaimed(at.partition, in)
	if j.Payload == nil && j.Unreadable == nil {
		j.Unreadable = errNoPayload
	}
	j.Queue, j.Worker, j.Fence, j.Limited = at.queue, c.req.Worker, c.fence, isLimited
	c.room -= sizeOf(&j)
	c.jobs = append(c.jobs, &j)
	return in.err
}

// sizeOf returns the length of a job's payload and headers in bytes.
func sizeOf(j *queue.Job) int {
	size := len(j.Payload)
	for k, v := range j.Headers {
		size += len(k) + len(v)
	}
	return size
}

// setup returns err, or the SetupError in it.
func setup(err error) error {
	if e, ok := errors.AsType[*queue.SetupError](err); ok {
		return e
	}
	return err
}
