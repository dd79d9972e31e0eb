package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Cancel implements [driver.Canceller]. It tells the workers of jobs that run. db must be nil.
func (b *Backend) Cancel(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	return b.act(ctx, db, action{name: "cancel", which: which}, driver.Cancellable()...)
}

// Redrive implements [driver.Editor]. db must be nil.
func (b *Backend) Redrive(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	which.Status = cmp.Or(which.Status, queue.StatusDead)
	return b.act(ctx, db, action{name: "redrive", which: which}, driver.Redrivable()...)
}

// Delete implements [driver.Editor]. db must be nil.
func (b *Backend) Delete(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	return b.act(ctx, db, action{name: "delete", which: which}, driver.Deletable()...)
}

// act does an action of lua/control.lua to the chosen jobs of these statuses, some hundred a call.
func (b *Backend) act(ctx context.Context, db queue.DB, a action, statuses ...queue.Status) (n int, err error) {
	if err := a.which.Check(statuses...); err != nil {
		return 0, failed(a.name, err)
	}
	if err := cmp.Or(refuse(db), ctx.Err()); err != nil {
		return 0, failed(a.name, err)
	}
	a.b, a.statuses = b, a.which.Of(statuses...)
	if a.which.IDs != nil {
		err = a.onIDs(ctx)
	} else {
		err = a.onAll(ctx)
	}
	if err != nil {
		return a.n, failed(a.name, err)
	}
	return a.n, nil
}

// action is an act under way.
type action struct {
	b        *Backend
	name     string
	own      []string // arguments of this action alone
	which    queue.Selection
	statuses []queue.Status
	n        int // how many jobs it has changed
}

// step is the most jobs of one call.
const step = 500

// onIDs acts on the jobs that are named.
func (a *action) onIDs(ctx context.Context) error {
	byPartition := make(map[int][]string)
	for _, id := range slices.Compact(slices.Sorted(slices.Values(a.which.IDs))) {
		p, seq := a.b.locate(id)
		byPartition[p] = append(byPartition[p], strconv.FormatInt(seq, 10))
	}
	for p, seqs := range byPartition {
		for some := range slices.Chunk(seqs, step) {
			if err := a.change(ctx, p, some); err != nil {
				return err
			}
		}
	}
	return nil
}

// onAll acts on all jobs, by walking through the sets of their statuses.
func (a *action) onAll(ctx context.Context) error {
	for p := range a.b.tags {
		for _, set := range a.sets() {
			if err := a.walk(ctx, p, set); err != nil {
				return err
			}
		}
	}
	return nil
}

// sets returns the sorted sets that have jobs of the statuses.
func (a *action) sets() []string {
	var all []string
	for _, s := range a.statuses {
		switch s {
		case queue.StatusPending, queue.StatusHeld, queue.StatusRunning:
			all = append(all, "live")
		default:
			all = append(all, "in:"+string(s))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// walk acts on the jobs of a set that were there when it began.
func (a *action) walk(ctx context.Context, p int, set string) error {
	last, end := "0", int64(-1)
	for {
		in, err := a.b.callFields(ctx, "scan", p, set, last)
		if err != nil {
			return err
		}
		found, drawn := in.next(), in.int()
		if in.err != nil {
			return in.err
		}
		seqs, err := found.AsStrSlice()
		if err != nil || len(seqs) == 0 {
			return err
		}
		if end < 0 {
			end = drawn
		}
		if err := a.change(ctx, p, seqs); err != nil {
			return err
		}
		last = seqs[len(seqs)-1]
		if n, err := strconv.ParseInt(last, 10, 64); err != nil || n >= end {
			return err
		}
	}
}

// change acts on jobs of one partition.
func (a *action) change(ctx context.Context, p int, seqs []string) error {
	var statuses strings.Builder
	for _, s := range a.statuses {
		statuses.WriteString(string(s) + ",")
	}
	args := []string{a.name, a.which.Queue, a.which.Kind, a.which.Group, a.which.Key, statuses.String(), strconv.Itoa(len(a.own))}
	in, err := a.b.callFields(ctx, "change", p, slices.Concat(args, a.own, seqs)...)
	if err != nil {
		return err
	}
	a.n += int(in.int())
	running := in.next()
	if in.err != nil {
		return in.err
	}
	return a.b.hint(ctx, p, running)
}

// hint tells the workers of running jobs that they are asked to cancel them. Its errors do no harm:
// the workers learn of it with their next heartbeats.
func (b *Backend) hint(ctx context.Context, p int, running *rueidis.RedisMessage) error {
	return readEach(running, func(in *reader) {
		worker, id := in.text(), b.idOf(p, in.int())
		if in.err == nil {
			b.client.Do(ctx, b.client.B().Publish().Channel(b.cancels(worker)).Message(fmt.Sprint(id)).Build())
		}
	})
}

// cancels returns the channel on which a worker hears which jobs it is asked to cancel.
func (b *Backend) cancels(worker string) string { return b.opts.Namespace + ":cancel:" + worker }
