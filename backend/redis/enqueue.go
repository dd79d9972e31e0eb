package redis

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue"
)

// The most that one Enqueue or Receive writes. The server does nothing else meanwhile: on a busy
// machine of two cores, 10,000 jobs of a kilobyte took it 0.9 s, and 64 MB 1.2 s. A client gives a
// server up that is silent for ConnWriteTimeout, for which docs/redis.md names three seconds.
const (
	maxJobs   = 10_000
	maxBytes  = 64 << 20  // of the payloads and headers of several jobs
	maxLength = 256 << 20 // of those of a job that is alone: the server ends a connection that sends it a gigabyte
)

// Enqueue implements [queue.Enqueuer]. Jobs of one partition are written as a whole or not at all;
// those of a call that goes to several partitions are not: if one of them fails, the error is
// [queue.ErrUnknown]. db must be nil.
func (b *Backend) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	for _, j := range jobs {
		if err := b.checkJob(j); err != nil {
			return err
		}
	}
	if err := refuse(db); err != nil {
		return err
	}
	if len(jobs) == 0 {
		return nil
	}
	if len(jobs) > maxJobs {
		return &queue.InvalidError{Field: "jobs", Problem: fmt.Sprintf("%d: at most %d a call, during which the server does nothing else", len(jobs), maxJobs)}
	}
	if err := checkBytes(jobs); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return failed("enqueue", err)
	}
	return b.write(ctx, b.placed(jobs))
}

// checkBytes returns an error if the payloads and headers of one call are too long.
func checkBytes(jobs []*queue.Job) error {
	n := 0
	for _, j := range jobs {
		n += sizeOf(j)
	}
	limit := maxBytes
	if len(jobs) == 1 {
		limit = maxLength
	}
	if n > limit {
		return &queue.InvalidError{Field: "jobs", Problem: fmt.Sprintf("%d MB: at most %d MB a call", n>>20, limit>>20)}
	}
	return nil
}

func (b *Backend) checkJob(j *queue.Job) error {
	if err := j.Check(b.opts.MaxPayload); err != nil {
		return err
	}
	if b.opts.Spread > 1 && j.Ordered && j.Key != "" {
		return &queue.InvalidError{Field: "Key", Problem: "of an ordered job: with a Spread above 1 its group and its key are in different partitions"}
	}
	return nil
}

// batch is the jobs of one call that go to one partition.
type batch struct {
	partition int
	jobs      []*queue.Job
}

// placed divides jobs by partition. They keep their order.
func (b *Backend) placed(jobs []*queue.Job) []batch {
	var all []batch
	next := int(b.places.Add(1) % uint32(b.opts.Spread))
	at := make(map[int]int)
	for _, j := range jobs {
		p := b.home(j, next)
		i, ok := at[p]
		if !ok {
			i = len(all)
			at[p], all = i, append(all, batch{partition: p})
		}
		all[i].jobs = append(all[i].jobs, j)
	}
	return all
}

// home returns the partition of a job: by its key, its group if it is ordered, or else next.
func (b *Backend) home(j *queue.Job, next int) int {
	switch {
	case b.opts.Spread == 1:
		next = 0
	case j.Key != "":
		next = int(hash(j.Key) % uint32(b.opts.Spread))
	case j.Ordered:
		next = int(hash(j.Group) % uint32(b.opts.Spread))
	}
	return b.partition(queueOf(j), next)
}

func queueOf(j *queue.Job) string {
	if j.Queue == "" {
		return queue.DefaultQueue
	}
	return j.Queue
}

// write writes the batches, and tells the jobs what has become of them.
func (b *Backend) write(ctx context.Context, batches []batch) error {
	partitions, args := make([]int, len(batches)), make([][]string, len(batches))
	for i, batch := range batches {
		partitions[i] = batch.partition
		for _, j := range batch.jobs {
			a, err := enqueueArgs(j)
			if err != nil {
				return failed("enqueue", err)
			}
			args[i] = append(args[i], a...)
		}
	}
	results := b.callAll(ctx, "enqueue", partitions, args)
	if err := enqueueError(results); err != nil {
		return failed("enqueue", err)
	}
	for i, batch := range batches {
		if err := b.noteWritten(batch, results[i]); err != nil {
			return failed("enqueue", fmt.Errorf("%w: %w", queue.ErrUnknown, err))
		}
	}
	return nil
}

// enqueueError returns the error of an Enqueue, with ErrUnknown in it if some jobs may be written.
func enqueueError(results []rueidis.RedisResult) (first error) {
	isWritten := false
	for _, r := range results {
		err := r.Error()
		if err != nil && first == nil {
			first = err
		}
		isWritten = isWritten || err == nil || isUnanswered(err)
	}
	if first != nil && isWritten {
		return fmt.Errorf("%w: %w", queue.ErrUnknown, first)
	}
	return first
}

// noteWritten sets the fields of jobs that Enqueue fills in.
func (b *Backend) noteWritten(batch batch, result rueidis.RedisResult) error {
	answers, err := result.ToArray()
	if err != nil {
		return err
	}
	if len(answers) != len(batch.jobs) {
		return fmt.Errorf("%d answers for %d jobs", len(answers), len(batch.jobs))
	}
	for i, j := range batch.jobs {
		pair, err := answers[i].AsIntSlice()
		if err != nil {
			return err
		}
		b.noteEnqueued(batch.partition, j, pair)
	}
	return nil
}

// noteEnqueued sets what Enqueue fills in of a job, from an answer of lua/enqueue.lua.
func (b *Backend) noteEnqueued(p int, j *queue.Job, answer []int64) {
	j.ID, j.Duplicate, j.Replaced = b.idOf(p, answer[0]), answer[1] == 1, answer[1] == 2
}

// enqueueArgs returns the arguments of lua/enqueue.lua for a job.
func enqueueArgs(j *queue.Job) ([]string, error) {
	payload, due := "null", ""
	if j.Payload != nil {
		payload = string(j.Payload)
	}
	headers, err := headersText(j.Headers)
	if err != nil {
		return nil, err
	}
	if !j.ScheduledAt.IsZero() {
		due = dueBytes(j.ScheduledAt)
	}
	attempts, cost := j.MaxAttempts, j.Cost
	if attempts == 0 {
		attempts = queue.DefaultMaxAttempts
	}
	if cost == 1 {
		cost = 0
	}
	return []string{
		queueOf(j), j.Kind, payload, headers, strconv.Itoa(int(j.Priority)), due, micros(j.Delay), strconv.Itoa(attempts),
		j.Key, j.Group, bit(j.Ordered), bit(j.OnDuplicate == queue.Replace), micros(j.MaxDelay), strconv.Itoa(cost),
	}, nil
}

// headersText returns headers as JSON, or "" for none. It escapes as little as JSON allows.
func headersText(headers map[string]string) (string, error) {
	if len(headers) == 0 {
		return "", nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(headers)
	return text.String(), err
}

func bit(is bool) string {
	if is {
		return "1"
	}
	return "0"
}
