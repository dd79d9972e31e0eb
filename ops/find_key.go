package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/errandhq/errand/queue"
)

// findKey reads the live job that has the key, or else the one that had it last.
func (f *facts) findKey(ctx context.Context) ([]Reason, error) {
	var newest *queue.Record
	var live []int64
	see := func(r queue.Record) bool {
		if isLive(r) {
			live = append(live, r.ID)
		}
		if newest == nil || newest.ID < r.ID {
			newest = &r
		}
		return true
	}
	if f.server != nil {
		if ids, err := f.liveKeys(ctx, f.question.Queue, f.question.Key); err != nil {
			return nil, err
		} else if len(ids) > 0 {
			return nil, f.readOne(ctx, ids)
		}
	}
	isAll, err := f.list(ctx, queue.Filter{Key: f.question.Key, Queue: f.question.Queue}, see)
	if err != nil {
		return nil, err
	}
	switch {
	case len(live) > 0:
		return nil, f.readOne(ctx, live)
	case newest != nil:
		if err := f.read(ctx, newest.ID); err != nil {
			return nil, err
		}
		return f.withSchedules(ctx, nil)
	}
	r := Reason{ID: "no-such-key", Level: Warn, Verdict: fmt.Sprintf("No job has the key %q.", f.question.Key), Evidence: []string{
		"none was committed, or it has ended and was pruned"}, Remedy: "look at the program that enqueues it, and at the spelling of the key and the queue"}
	if !isAll {
		r.Evidence = append(r.Evidence, "all live jobs were looked at, and the newest of those that have ended")
	}
	if f.server == nil {
		return f.withSchedules(ctx, []Reason{r})
	}
	reasons, err := f.hidden(ctx, "the job with the key")
	if err == nil {
		reasons, err = f.withSchedules(ctx, append(reasons, r))
	}
	if err != nil {
		return nil, err
	}
	return f.perhapsUncommitted(ctx, reasons)
}

// isLive reports whether the job has its key for itself.
func isLive(r queue.Record) bool {
	return r.Status == queue.StatusPending || r.Status == queue.StatusRunning || r.Status == queue.StatusHeld
}

// readOne reads the newest of the live jobs that have the key, each in a queue of its own, and
// notes the others.
func (f *facts) readOne(ctx context.Context, ids []int64) error {
	newest := slices.Max(ids)
	var others []string
	for _, id := range ids {
		if id != newest {
			others = append(others, f.command("explain", id))
		}
	}
	if len(others) > 0 {
		f.unknown = append(f.unknown, fmt.Sprintf("which job is meant: jobs of several queues have the key, and this is the newest. The others: %s", enumerate(others)))
	}
	return f.read(ctx, newest)
}

// liveKeys returns the IDs of the live jobs that have the key in the queue, "" for any queue. There
// are none, too, if this is not known.
func (f *facts) liveKeys(ctx context.Context, name, key string) (ids []int64, err error) {
	if f.server != nil {
		err = f.server.rows(ctx, "live_key", func(r *sql.Rows) error {
			var id int64
			err := r.Scan(&id)
			ids = append(ids, id)
			return err
		}, key, name)
		_, err = f.tryOrNote(ctx, "which live job has the key", err)
		return ids, err
	}
	_, err = f.list(ctx, queue.Filter{Queue: name, Key: key}, func(r queue.Record) bool {
		if isLive(r) {
			ids = append(ids, r.ID)
		}
		return true
	})
	return ids, err
}
