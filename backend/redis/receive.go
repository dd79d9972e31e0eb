package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Receive implements [driver.Receiver]. A Source is remembered in the partition of its job, which
// follows from the Key or the Group, and without them from the Source. Jobs of one partition are
// written as a whole or not at all; if a call goes to several partitions and one of them fails, the
// error is [queue.ErrUnknown]. Repeat the call then: what is written is left out. With
// [Options].Durable a call returns when enough replicas have the jobs, also those that it leaves
// out.
func (b *Backend) Receive(ctx context.Context, transfers ...driver.Transfer) (received int, err error) {
	if err := b.checkTransfers(transfers); err != nil {
		return 0, failed("receive", err)
	}
	if len(transfers) == 0 {
		return 0, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, failed("receive", err)
	}
	c, err := b.deliveries(transfers)
	if err != nil {
		return 0, failed("receive", err)
	}
	results := b.callAll(ctx, "receive", c.partitions, c.args)
	if err := enqueueError(results); err != nil {
		return 0, failed("receive", err)
	}
	for at, r := range results {
		n, err := b.noteReceived(c.partitions[at], c.indexes[at], transfers, r)
		if err != nil {
			return 0, failed("receive", fmt.Errorf("%w: %w", queue.ErrUnknown, err))
		}
		received += n
	}
	return received, nil
}

func (b *Backend) checkTransfers(transfers []driver.Transfer) error {
	jobs := make([]*queue.Job, len(transfers))
	for i, t := range transfers {
		err := t.Check(b.opts.MaxPayload)
		if err == nil {
			err = b.checkJob(t.Job)
		}
		if err != nil {
			return fmt.Errorf("job %d of %d: %w", i+1, len(transfers), err)
		}
		jobs[i] = t.Job
	}
	if len(transfers) > maxJobs {
		return &queue.InvalidError{Field: "transfers", Problem: fmt.Sprintf("%d: at most %d a call, during which the server does nothing else", len(transfers), maxJobs)}
	}
	return checkBytes(jobs)
}

// deliveries divides transfers by partition. Of several with one Source it takes the first.
func (b *Backend) deliveries(transfers []driver.Transfer) (c calls, err error) {
	isTaken := make(map[string]bool, len(transfers))
	latest := make(map[int]int) // the call of each partition
	for i, t := range transfers {
		if isTaken[t.Source] {
			continue
		}
		isTaken[t.Source] = true
		p := b.home(t.Job, int(hash(t.Source)%uint32(b.opts.Spread)))
		at, ok := latest[p]
		if !ok {
			at = len(c.partitions)
			latest[p] = at
			c.partitions, c.args, c.indexes = append(c.partitions, p), append(c.args, []string{micros(driver.TransferWindow)}), append(c.indexes, nil)
		}
		job, err := enqueueArgs(t.Job)
		if err != nil {
			return c, err
		}
		c.args[at] = append(append(c.args[at], pastArgs(t)...), job...)
		c.indexes[at] = append(c.indexes[at], i)
	}
	return c, nil
}

// pastArgs returns the arguments of lua/receive.lua for a job, without those of enqueue.
func pastArgs(t driver.Transfer) []string {
	created := ""
	if !t.Job.CreatedAt.IsZero() {
		created = strconv.FormatInt(t.Job.CreatedAt.UnixMicro(), 10)
	}
	return []string{t.Source, created, strconv.Itoa(t.Job.Attempt), t.Job.LastError}
}

// leftOut is what lua/receive.lua answers for a job whose source it knows.
const leftOut = 3

// noteReceived sets the fields of the jobs that one call has received, and returns how many.
func (b *Backend) noteReceived(p int, indexes []int, transfers []driver.Transfer, r rueidis.RedisResult) (n int, err error) {
	answers, err := r.ToArray()
	if err != nil {
		return 0, err
	}
	if len(answers) != len(indexes) {
		return 0, fmt.Errorf("%d answers for %d jobs", len(answers), len(indexes))
	}
	for k, i := range indexes {
		pair, err := answers[k].AsIntSlice()
		if err != nil {
			return n, err
		}
		if pair[1] == leftOut {
			continue
		}
		n++
		b.noteEnqueued(p, transfers[i].Job, pair)
	}
	return n, nil
}
