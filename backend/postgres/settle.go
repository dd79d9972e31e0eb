package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Settle implements [queue.Consumer] with sql/settle.sql, or, if all jobs are done, with
// sql/settle_done.sql or sql/settle_drop.sql. It runs one statement for the jobs of each holder.
// Outcomes that throttle do so first, on the backend's own handle: a transaction that is open for
// long would keep the buckets locked.
func (b *Backend) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	for _, o := range outcomes {
		if err := o.Check(); err != nil {
			return nil, fmt.Errorf("postgres: settle: %w", err)
		}
	}
	if err := b.throttle(ctx, db, outcomes); err != nil {
		return nil, err
	}
	groups, lost := sqlkit.ByWorker(outcomes, func(o queue.Outcome) *queue.Job { return o.Job })
	var locked *driver.LockedError
	for _, held := range groups { // in the order of the workers, because rows may stay locked
		settle := b.settleHeld
		switch {
		case held.Worker == "" && db != nil:
			settle = b.settleInTx
		case slices.ContainsFunc(held.Items, hasOutput):
			settle = b.settleOutputs
		}
		notHeld, err := settle(ctx, db, held)
		lost = append(lost, notHeld...)
		if locked, err = addLocked(locked, err); err != nil {
			return lost, err
		}
	}
	return lost, orNil(locked)
}

// addLocked adds the jobs of err to those of locked, which may be nil, if err is a
// [driver.LockedError]. It returns any other error.
func addLocked(locked *driver.LockedError, err error) (*driver.LockedError, error) {
	l, ok := errors.AsType[*driver.LockedError](err)
	if !ok {
		return locked, err
	}
	if locked != nil {
		l.Jobs = append(l.Jobs, locked.Jobs...)
	}
	return l, nil
}

// orNil returns locked as an error, nil if it is nil.
func orNil(locked *driver.LockedError) error {
	if locked == nil {
		return nil
	}
	return locked
}

// settleInTx settles jobs that ClaimTx has claimed in this transaction. No worker holds them.
func (b *Backend) settleInTx(ctx context.Context, db queue.DB, h sqlkit.Held[queue.Outcome]) (lost []*queue.Job, err error) {
	done, others := h.Split(func(o queue.Outcome) bool { return isDone(o) && !hasOutput(o) })
	_, lost, err = b.resume(ctx, db, done, queue.StatusCompleted)
	if err != nil {
		return lost, err
	}
	others, notHeld, err := b.resume(ctx, db, others, queue.StatusRunning)
	lost = append(lost, notHeld...)
	if err != nil || len(others.Items) == 0 {
		return lost, err
	}
	others.Worker = transaction
	notHeld, err = b.settleOutputs(ctx, db, others)
	return append(lost, notHeld...), err
}

// resume makes the transaction the holder again of jobs that it has claimed. The others are lost.
func (b *Backend) resume(ctx context.Context, db queue.DB, h sqlkit.Held[queue.Outcome], status queue.Status) (found sqlkit.Held[queue.Outcome], lost []*queue.Job, err error) {
	if len(h.Items) == 0 {
		return h, nil, nil
	}
	ids, fences := arraysOf(h)
	resumed, err := b.queryIDs(ctx, "settle", db, b.sql["resume"], ids, fences, string(status), transaction)
	found, others := h.Split(func(o queue.Outcome) bool { return slices.Contains(resumed, o.Job.ID) })
	return found, slices.Collect(others.Jobs()), err
}

// settleHeld settles jobs of one worker, all of them with an output or none. The statements for
// jobs that are done do not lock the rows in the order of their ids, which saves a fifth of their
// time. So they are used for a single row, or wait for a lock for 200 ms only, and then settle.sql
// takes over. Through the backend's own handle that waits for half a second. Otherwise a caller's
// transaction that keeps one job locked would hold up all others of the worker.
func (b *Backend) settleHeld(ctx context.Context, db queue.DB, h sqlkit.Held[queue.Outcome]) ([]*queue.Job, error) {
	own := db == nil
	isPlain := func(o queue.Outcome) bool { return isDone(o) && !hasOutput(o) }
	if (own || len(h.Items) == 1) && !slices.ContainsFunc(h.Items, func(o queue.Outcome) bool { return !isPlain(o) }) {
		statement := b.sql["settle_drop"]
		if b.options.Retention.KeepsCompleted() {
			statement = b.sql["settle_done"]
		}
		ids, fences := arraysOf(h)
		lost, err := b.queryIDs(ctx, "settle", db, statement, ids, fences, h.Worker, own)
		if !own || !lockTimedOut(err) {
			return h.With(lost), err
		}
	}
	lost, err := b.settleInOrder(ctx, db, h)
	if own && lockTimedOut(err) && ctx.Err() == nil {
		return b.settleUnlocked(ctx, h, err)
	}
	return lost, err
}

// settleInOrder settles jobs of one worker with sql/settle.sql, or with sql/settle_output.sql if
// they have outputs.
func (b *Backend) settleInOrder(ctx context.Context, db queue.DB, h sqlkit.Held[queue.Outcome]) ([]*queue.Job, error) {
	if len(h.Items) > 0 && hasOutput(h.Items[0]) {
		ids, fences := arraysOf(h)
		lost, err := b.queryIDs(ctx, "settle", db, b.sql["settle_output"], ids, fences, h.Worker,
			b.options.Retention.KeepsCompleted(), outputs(h.Items), db == nil)
		return h.With(lost), err
	}
	done, others := h.Split(isDone)
	doneIDs, doneFences := arraysOf(done)
	otherIDs, otherFences := arraysOf(others)
	lost, err := b.queryIDs(ctx, "settle", db, b.sql["settle"], doneIDs, doneFences, otherIDs, otherFences,
		actions(others.Items), h.Worker, b.options.Retention.KeepsCompleted(), !b.options.Silent, db == nil)
	return h.With(lost), err
}

// settleUnlocked settles the jobs of one worker that no transaction has locked, after a statement
// for all of them has given up waiting. The others are in its [driver.LockedError].
func (b *Backend) settleUnlocked(ctx context.Context, h sqlkit.Held[queue.Outcome], cause error) (lost []*queue.Job, err error) {
	ids, fences := arraysOf(h)
	locked, err := b.queryIDs(ctx, "settle", nil, b.sql["settle_locked"], ids, fences, h.Worker)
	if err != nil {
		return nil, err
	}
	_, free := h.Split(func(o queue.Outcome) bool { return slices.Contains(locked, o.Job.ID) })
	if len(free.Items) > 0 {
		lost, err = b.settleInOrder(ctx, nil, free)
	}
	switch {
	case lockTimedOut(err) && ctx.Err() == nil: // others have been locked meanwhile
		return nil, &driver.LockedError{Jobs: slices.Collect(h.Jobs()), Err: err}
	case err != nil || len(locked) == 0:
		return lost, err
	}
	return lost, &driver.LockedError{Jobs: h.With(locked), Err: cause}
}

func isDone(o queue.Outcome) bool { return o.Action == queue.Done }

func hasOutput(o queue.Outcome) bool { return o.Output != nil }

// actions returns the JSON object in which sql/settle.sql looks outcomes up.
func actions(outcomes []queue.Outcome) string {
	byID := make(map[string][]any, len(outcomes))
	for _, o := range outcomes {
		action := []any{o.Action.String(), sqlkit.Microseconds(max(o.Delay, 0)), queue.ErrorText(o.Err)}
		if stack := driver.StackText(o.Err); stack != "" {
			action = append(action, stack)
		}
		byID[strconv.FormatInt(o.Job.ID, 10)] = action
	}
	text, _ := json.Marshal(byID) // strings and numbers always marshal
	return string(text)
}
