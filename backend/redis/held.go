package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/backend/internal/clockwatch"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// calls are what one operation on held jobs sends: a call for each partition.
type calls struct {
	partitions []int
	args       [][]string
	indexes    [][]int // of the jobs of each call
}

// maxBatch is the most jobs of one claim or of one call for held jobs: a command has at most
// 1,048,576 arguments.
const maxBatch = 50_000

// group divides n jobs by partition. Each call begins with first, and names at most maxBatch jobs.
func (b *Backend) group(n int, first []string, idOf func(i int) int64, args func(i int) []string) calls {
	var c calls
	latest := make(map[int]int) // the last call of each partition
	for i := range n {
		p, seq := b.locate(idOf(i))
		at, ok := latest[p]
		if !ok || len(c.indexes[at]) == maxBatch {
			at = len(c.partitions)
			latest[p] = at
			c.partitions, c.args, c.indexes = append(c.partitions, p), append(c.args, slices.Clone(first)), append(c.indexes, nil)
		}
		c.args[at] = append(append(c.args[at], strconv.FormatInt(seq, 10)), args(i)...)
		c.indexes[at] = append(c.indexes[at], i)
	}
	return c
}

// answers calls note with each job's answer. It returns the first error, and the jobs without an
// answer.
func (c calls) answers(results []rueidis.RedisResult, note func(i int, answer int64)) (missed []int, first error) {
	for at, r := range results {
		all, err := r.AsIntSlice()
		if err == nil && len(all) != len(c.indexes[at]) {
			err = fmt.Errorf("%d answers for %d jobs", len(all), len(c.indexes[at]))
		}
		if err != nil {
			missed, first = append(missed, c.indexes[at]...), errors.Join(first, err)
			continue
		}
		for k, i := range c.indexes[at] {
			note(i, all[k])
		}
	}
	return missed, first
}

// partError is the error of an operation on n jobs that has failed for some of them: a
// [*driver.PartialError] unless it has failed for all. It is nil if err is.
func partError(operation string, n int, missed []int, jobOf func(i int) *queue.Job, err error) error {
	if err == nil {
		return nil
	}
	err = failed(operation, err)
	if len(missed) == n {
		return err
	}
	e := &driver.PartialError{Err: err}
	for _, i := range missed {
		e.Jobs = append(e.Jobs, jobOf(i))
	}
	return e
}

// Extend implements [queue.Consumer]. If only some partitions answer, the error is a
// [*driver.PartialError] with the jobs of the others, whose leases may be extended or not.
func (b *Backend) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	if err := driver.CheckLease(lease); err != nil {
		return nil, nil, err
	}
	if slices.Contains(jobs, nil) {
		return nil, nil, &queue.InvalidError{Field: "Job", Problem: "nil"}
	}
	if len(jobs) == 0 {
		return nil, nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, failed("extend", err)
	}
	c := b.group(len(jobs), []string{micros(lease)}, func(i int) int64 { return jobs[i].ID }, func(i int) []string {
		return []string{strconv.FormatInt(jobs[i].Fence, 10), jobs[i].Worker}
	})
	missed, err := c.answers(b.callAll(ctx, "extend", c.partitions, c.args), func(i int, answer int64) {
		switch answer {
		case 1:
			lost = append(lost, jobs[i])
		case 2:
			asked = append(asked, jobs[i])
		}
	})
	return lost, asked, partError("extend", len(jobs), missed, func(i int) *queue.Job { return jobs[i] }, err)
}

// Settle implements [queue.Consumer]. Outcomes of one partition are recorded as a whole or not at
// all, if they are at most 50,000. If only some partitions answer, the error is a
// [*driver.PartialError] with the jobs of the others, whose outcomes may be recorded or not. db
// must be nil.
func (b *Backend) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	for _, o := range outcomes {
		if err := o.Check(); err != nil {
			return nil, err
		}
	}
	if err := refuse(db); err != nil {
		return nil, err
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, failed("settle", err)
	}
	first := []string{bit(!b.opts.Retention.KeepsCompleted())}
	c := b.group(len(outcomes), first, func(i int) int64 { return outcomes[i].Job.ID }, func(i int) []string {
		return outcomeArgs(outcomes[i])
	})
	missed, err := c.answers(b.callAll(ctx, "settle", c.partitions, c.args), func(i int, answer int64) {
		if answer == 1 {
			lost = append(lost, outcomes[i].Job)
		}
	})
	return lost, partError("settle", len(outcomes), missed, func(i int) *queue.Job { return outcomes[i].Job }, err)
}

// outcomeArgs returns the arguments of lua/settle.lua for an outcome, without the seq.
func outcomeArgs(o queue.Outcome) []string {
	text, stack := "", ""
	if o.Action != queue.Done && o.Action != queue.Release {
		text, stack = queue.ErrorText(o.Err), driver.StackText(o.Err)
	}
	return []string{
		strconv.FormatInt(o.Job.Fence, 10), o.Job.Worker, strconv.Itoa(int(o.Action)), micros(max(o.Delay, 0)),
		text, strconv.Itoa(historyLen(text)), stack, string(o.Output), bit(o.Throttle),
	}
}

// historyLen returns how many bytes of an error text a failure keeps.
func historyLen(text string) int {
	n := 0
	for range driver.MaxHistoryText {
		if n == len(text) {
			break
		}
		_, size := utf8.DecodeRuneInString(text[n:])
		n += size
	}
	return n
}

// Reclaim implements [driver.Reclaimer]. It asks all partitions at once for expired leases, and
// reclaims in those that have some. It passes over partitions that fail, and returns their error
// beside the jobs of the others. It also returns an error if the namespace has disappeared. Package
// clockwatch says what a jump forward of a server's clock does. After a jump back, leases of before
// last longer by as much.
func (b *Backend) Reclaim(ctx context.Context, limit int) (jobs []*queue.Job, err error) {
	if limit < 1 {
		return nil, &queue.InvalidError{Field: "Limit", Problem: fmt.Sprintf("%d: at least 1", limit)}
	}
	if err := ctx.Err(); err != nil {
		return nil, failed("reclaim", err)
	}
	looks := make([]clockwatch.Look, len(b.tags))
	for p := range looks {
		looks[p] = b.clocks[p].Begin()
	}
	var errs failures
	var jump time.Duration
	for p, r := range b.onEach(ctx, "expired") {
		some, jumped, err := b.reclaimExpired(ctx, p, limit-len(jobs), looks[p], r)
		jobs, jump = append(jobs, some...), cmp.Or(jump, jumped)
		errs.add(err)
	}
	clockwatch.Log(b.opts.Logger, jump) // once, although a server has several partitions
	// Last, because it may wait for a server that hangs.
	errs.add(b.checkKept(ctx))
	if err := errs.err(); err != nil {
		return jobs, failed("reclaim", err)
	}
	return jobs, nil
}

// reclaimExpired reclaims at most limit jobs of one partition, if it has answered that there are
// some. It also returns by how much the partition's clock has jumped.
func (b *Backend) reclaimExpired(ctx context.Context, p, limit int, look clockwatch.Look, answer rueidis.RedisResult) (jobs []*queue.Job, jump time.Duration, err error) {
	told, err := answer.AsIntSlice()
	if err != nil {
		return nil, 0, err
	}
	if len(told) != 2 {
		return nil, 0, fmt.Errorf("got %d numbers, want how many leases to look at, and the time", len(told))
	}
	look, jump = b.clocks[p].Note(look, told[1])
	if p == common { // which has the schedules
		b.ticks.NoteJump(jump)
	}
	if told[0] > 0 && limit > 0 {
		jobs, err = b.reclaim(ctx, p, limit, told[1], look.Jumps)
	}
	return jobs, jump, err
}

// reclaim reclaims at most limit jobs of one partition, by the clock that it has told, and its
// jumps. It logs jobs there that cannot be read.
func (b *Backend) reclaim(ctx context.Context, p, limit int, clock int64, jumps []clockwatch.Jump) ([]*queue.Job, error) {
	args := []string{strconv.Itoa(min(limit, maxBatch)), micros(badrows.PassOver), strconv.FormatInt(clock, 10)}
	for _, j := range jumps {
		args = append(args, strconv.FormatInt(j.UpTo, 10), strconv.FormatInt(j.By, 10))
	}
	in, err := b.callFields(ctx, "reclaim", p, args...)
	if err != nil {
		return nil, err
	}
	found, bad := in.next(), in.next()
	if in.err != nil {
		return nil, in.err
	}
	badErr := b.logBad(p, bad)
	rows, err := b.records(p, found)
	err = cmp.Or(err, badErr)
	jobs := make([]*queue.Job, len(rows))
	for i := range rows {
		jobs[i] = &rows[i].Job
	}
	return jobs, err
}
