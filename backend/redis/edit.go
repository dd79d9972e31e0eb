package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Edit implements [driver.Editor]. A job's ID says in which partition it is, so a job can move only
// between queues of one partition: another JobChange.Queue is an [*queue.InvalidError], and so is a
// JobChange.Queue without Selection.Queue or Selection.IDs, except if the namespace has one
// partition. db must be nil.
func (b *Backend) Edit(ctx context.Context, db queue.DB, which queue.Selection, change queue.JobChange) (n int, err error) {
	statuses := driver.Editable()
	if err := cmp.Or(which.Check(statuses...), change.Check(b.opts.MaxPayload), refuse(db), ctx.Err()); err != nil {
		return 0, failed("edit", err)
	}
	if err := b.checkMove(ctx, which, change.Queue); err != nil {
		return 0, failed("edit", err)
	}
	return b.act(ctx, db, action{name: "edit", own: editArgs(change), which: which}, statuses...)
}

// editArgs returns the arguments of lua/edit.lua.
func editArgs(change queue.JobChange) []string {
	due, priority := "", ""
	if !change.ScheduledAt.IsZero() {
		due = dueBytes(change.ScheduledAt)
	}
	if change.Priority != nil {
		priority = strconv.Itoa(int(*change.Priority))
	}
	return []string{
		bit(change.RunNow), micros(change.Delay), due, priority, string(change.Payload), change.Queue, strconv.Itoa(change.MaxAttempts),
	}
}

// checkMove returns an error unless the chosen jobs can be in the queue to. "" means that they stay
// where they are.
func (b *Backend) checkMove(ctx context.Context, which queue.Selection, to string) error {
	if to == "" || b.opts.Partitions == 1 {
		return nil
	}
	if which.Queue != "" {
		return b.checkNeighbours(which.Queue, to)
	}
	if which.IDs == nil {
		return &queue.InvalidError{Field: "Selection.Queue", Problem: "empty beside JobChange.Queue: jobs move between queues of one partition only, so say from which queue, or which IDs"}
	}
	for ids := range slices.Chunk(which.IDs, step) {
		jobs, err := b.read(ctx, ids, false)
		if err != nil {
			return err
		}
		for i := range jobs {
			if err := b.checkNeighbours(jobs[i].Queue, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNeighbours returns an error unless two queues are in the same partitions, and have jobs with
// a key, and groups, in the same ones of these.
func (b *Backend) checkNeighbours(from, to string) error {
	if b.firstOf(from) == b.firstOf(to) {
		return nil
	}
	return &queue.InvalidError{Field: "Queue", Problem: fmt.Sprintf("%q: in another partition than %q, and jobs cannot leave theirs; enqueue them anew and cancel these", to, from)}
}
