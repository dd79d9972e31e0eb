package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue"
)

// Claim implements [queue.Consumer]. It looks at the partitions of each queue one by one until it
// has enough. Of a queue with a Spread above 1, each claim begins at another partition. It passes
// over partitions that do not answer, and returns their error if it has found no jobs.
func (b *Backend) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, failed("claim", err)
	}
	c := &claim{b: b, req: req, room: req.MaxBytes()}
	from := int(b.looks.Add(1) % uint32(b.opts.Spread))
	var err error
	for _, name := range req.Queues {
		for i := range b.opts.Spread {
			if len(c.jobs) >= req.Limit || c.isFull || ctx.Err() != nil {
				break
			}
			err = errors.Join(err, c.look(ctx, name, b.partition(name, (from+i)%b.opts.Spread)))
		}
	}
	if len(c.jobs) == 0 && err != nil {
		return nil, setup(failed("claim", err))
	}
	return c.jobs, nil
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
}

// look claims from one partition of a queue.
func (c *claim) look(ctx context.Context, name string, p int) error {
	args := append([]string{
		name, c.req.Worker, micros(c.req.Lease), strconv.Itoa(c.req.Limit - len(c.jobs)), strconv.Itoa(c.room),
		strconv.FormatInt(c.fence, 10), bit(slices.Contains(c.drawn, p)), bit(len(c.jobs) > 0),
	}, c.req.Kinds...)
	m, err := c.b.call(ctx, "claim", p, args...)
	if err != nil {
		return err
	}
	answer, err := m.ToArray()
	if err != nil {
		return err
	}
	in := &reader{fields: answer}
	c.fence, c.isFull = in.int(), in.int() == 1
	found := in.next()
	if in.err != nil {
		return in.err
	}
	rows, err := found.ToArray()
	if err != nil {
		return err
	}
	for i := range rows {
		if err := c.add(name, p, &rows[i]); err != nil {
			return err
		}
	}
	if len(rows) > 0 {
		c.drawn = append(c.drawn, p)
	}
	return nil
}

// add adds a claimed job.
func (c *claim) add(name string, p int, row *rueidis.RedisMessage) error {
	fields, err := row.ToArray()
	if err != nil {
		return err
	}
	in := &reader{fields: fields}
	j := c.b.readClaimed(p, in)
	j.Queue, j.Worker, j.Fence = name, c.req.Worker, c.fence
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
