package ops

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"github.com/errandhq/errand/queue"
)

// findKey reads the live job that has the key, or else the one that had it last.
func (f *facts) findKey(ctx context.Context) ([]Reason, error) {
	var newest *queue.Record
	var newestLive *queue.Record
	see := func(r queue.Record) bool {
		isLive := isLive(r)
		if isLive && (newestLive == nil || newestLive.ID < r.ID) {
			newestLive = &r
		}
		if newest == nil || newest.ID < r.ID {
			newest = &r
		}
		return !isLive
	}
	if f.server != nil {
		if id, err := f.liveKey(ctx, f.question.Queue, f.question.Key); err != nil {
			return nil, err
		} else if id > 0 {
			return nil, f.read(ctx, id)
		}
	}
	isAll, err := f.list(ctx, queue.Filter{Key: f.question.Key, Queue: f.question.Queue}, see)
	if err != nil {
		return nil, err
	}
	if found := cmp.Or(newestLive, newest); found != nil {
		return nil, f.read(ctx, found.ID)
	}
	r := Reason{ID: "no-such-key", Level: Warn, Verdict: fmt.Sprintf("No job has the key %q.", f.question.Key), Evidence: []string{
		"none was committed, or it has ended and was pruned"}, Remedy: "look at the program that enqueues it, and at the spelling of the key and the queue"}
	if !isAll {
		r.Evidence = append(r.Evidence, "all live jobs were looked at, and the newest of those that have ended")
	}
	if f.server == nil {
		return []Reason{r}, nil
	}
	reasons, err := f.hidden(ctx, "the job with the key")
	if err != nil {
		return nil, err
	}
	return f.perhapsUncommitted(ctx, append(reasons, r))
}

// isLive reports whether the job has its key for itself.
func isLive(r queue.Record) bool {
	return r.Status == queue.StatusPending || r.Status == queue.StatusRunning || r.Status == queue.StatusHeld
}

// liveKey returns the ID of the live job that has the key in the queue, "" for any queue. 0 means that
// none has, or that this is not known.
func (f *facts) liveKey(ctx context.Context, name, key string) (id int64, err error) {
	if f.server != nil {
		err = f.server.rows(ctx, "live_key", func(r *sql.Rows) error { return r.Scan(&id) }, key, name)
		_, err = f.tryOrNote(ctx, "which live job has the key", err)
		return id, err
	}
	_, err = f.list(ctx, queue.Filter{Queue: name, Key: key}, func(r queue.Record) bool {
		if isLive(r) {
			id = r.ID
		}
		return id == 0
	})
	return id, err
}
