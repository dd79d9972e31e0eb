package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Settle implements [queue.Consumer] with sql/settle.sql, or, where all are done,
// sql/settle_done.sql or sql/settle_drop.sql: one statement for the jobs of each
// worker, which is one statement when a worker calls it.
func (b *Backend) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	for _, o := range outcomes {
		if err := o.Check(); err != nil {
			return nil, fmt.Errorf("postgres: settle: %w", err)
		}
	}
	groups, lost := sqlkit.ByWorker(outcomes, func(o queue.Outcome) *queue.Job { return o.Job })
	for _, held := range groups { // in the order of the workers, because rows stay locked in a caller's transaction
		settle := b.settleHeld
		if held.Worker == "" && db != nil {
			settle = b.settleInTx
		}
		gone, err := settle(ctx, db, held)
		lost = append(lost, gone...)
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// settleInTx settles jobs that no worker holds, but the transaction that ClaimTx has claimed them in.
func (b *Backend) settleInTx(ctx context.Context, db queue.DB, h sqlkit.Held[queue.Outcome]) (lost []*queue.Job, err error) {
	done, others := h.Split(isDone)
	_, lost, err = b.resume(ctx, db, done, queue.StatusCompleted)
	if err != nil {
		return lost, err
	}
	others, gone, err := b.resume(ctx, db, others, queue.StatusRunning)
	lost = append(lost, gone...)
	if err != nil || len(others.Items) == 0 {
		return lost, err
	}
	others.Worker = transaction
	gone, err = b.settleHeld(ctx, db, others)
	return append(lost, gone...), err
}

// resume takes up jobs again that this transaction has claimed. The others are lost.
func (b *Backend) resume(ctx context.Context, db queue.DB, h sqlkit.Held[queue.Outcome], status queue.Status) (found sqlkit.Held[queue.Outcome], lost []*queue.Job, err error) {
	if len(h.Items) == 0 {
		return h, nil, nil
	}
	ids, fences := arraysOf(h)
	var resumed []int64
	err = b.on(ctx, "settle", db, func(db queue.DB) error {
		resumed, err = queryIDs(ctx, db, b.sql.resume, ids, fences, string(status), transaction)
		return err
	})
	found, others := h.Split(func(o queue.Outcome) bool { return slices.Contains(resumed, o.Job.ID) })
	return found, slices.Collect(others.Jobs()), err
}

// settleHeld settles jobs of one worker. The statements for what is done do not lock the rows in the order of their ids, which
// would cost them a fifth: they are for single rows, or do not wait for long, and leave it to the other one then.
func (b *Backend) settleHeld(ctx context.Context, db queue.DB, h sqlkit.Held[queue.Outcome]) ([]*queue.Job, error) {
	own := db == nil
	if (own || len(h.Items) == 1) && !slices.ContainsFunc(h.Items, func(o queue.Outcome) bool { return !isDone(o) }) {
		statement := b.sql.settleDrop
		if b.options.Retention.KeepsCompleted() {
			statement = b.sql.settleDone
		}
		ids, fences := arraysOf(h)
		lost, err := b.settle(ctx, db, h, statement, ids, fences, h.Worker, own)
		if !own || !outOfPatience(err) {
			return lost, err
		}
	}
	done, others := h.Split(isDone)
	doneIDs, doneFences := arraysOf(done)
	otherIDs, otherFences := arraysOf(others)
	return b.settle(ctx, db, h, b.sql.settle, doneIDs, doneFences, otherIDs, otherFences, actions(others.Items), h.Worker, b.options.Retention.KeepsCompleted(), !b.options.Silent)
}

// outOfPatience says whether a statement has given up waiting for a lock. Where it gave up one lock just as it got that, and comes to wait for
// another, PostgreSQL says that somebody had it cancelled.
func outOfPatience(err error) bool {
	code := sqlState(err)
	return code == lockNotAvailable || code == queryCanceled
}

func isDone(o queue.Outcome) bool { return o.Action == queue.Done }

// settle runs a statement that returns the ids of the jobs that are not the worker's any more.
func (b *Backend) settle(ctx context.Context, db queue.DB, h sqlkit.Held[queue.Outcome], statement string, args ...any) (lost []*queue.Job, err error) {
	err = b.on(ctx, "settle", db, func(db queue.DB) error {
		gone, err := queryIDs(ctx, db, statement, args...)
		if err == nil {
			lost = h.With(gone)
		}
		return err
	})
	return lost, err
}

// answers is the JSON object that sql/settle.sql looks outcomes up in.
func actions(outcomes []queue.Outcome) string {
	byID := make(map[string][3]any, len(outcomes))
	for _, o := range outcomes {
		byID[strconv.FormatInt(o.Job.ID, 10)] = [3]any{o.Action.String(), sqlkit.Microseconds(max(o.Delay, 0)), queue.ErrorText(o.Err)}
	}
	text, _ := json.Marshal(byID) // strings and numbers always marshal
	return string(text)
}
