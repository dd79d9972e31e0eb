package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/errandhq/errand/queue"
)

// Settle implements [queue.Consumer] with sql/settle.sql, or, where all are done,
// sql/settle_done.sql or sql/settle_drop.sql: one statement for the jobs of each
// worker, which is one statement when a worker calls it. In a caller's transaction that is
// repeated, from a savepoint, where it deadlocks with others that settle some of the same jobs.
func (b *Backend) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	for _, o := range outcomes {
		if err := o.Check(); err != nil {
			return nil, fmt.Errorf("postgres: settle: %w", err)
		}
	}
	groups, lost := byWorker(outcomes, func(o queue.Outcome) *queue.Job { return o.Job })
	if db != nil && len(outcomes) > 1 {
		var gone []*queue.Job
		err := b.on(ctx, "settle", db, func(db queue.DB) error {
			return repeatable(ctx, db, func() (err error) {
				gone, err = b.settleGroups(ctx, db, groups)
				return err
			})
		})
		return append(lost, gone...), err
	}
	for worker, held := range groups {
		err := b.on(ctx, "settle", db, func(db queue.DB) error {
			gone, err := b.settleGroup(ctx, db, worker, held)
			lost = append(lost, gone...)
			return err
		})
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
}

func (b *Backend) settleGroups(ctx context.Context, db queue.DB, groups map[string]held[queue.Outcome]) (lost []*queue.Job, err error) {
	for worker, held := range groups {
		gone, err := b.settleGroup(ctx, db, worker, held)
		if err != nil {
			return nil, err
		}
		lost = append(lost, gone...)
	}
	return lost, nil
}

func (b *Backend) settleGroup(ctx context.Context, db queue.DB, worker string, held held[queue.Outcome]) (lost []*queue.Job, err error) {
	statement, args := b.settling(held, worker)
	gone, err := queryIDs(ctx, db, statement, args...)
	if err != nil {
		return nil, err
	}
	return held.withIDs(gone), nil
}

// settling chooses the statement, and separates what is done, of which there is no
// more to say, from the other outcomes.
func (b *Backend) settling(h held[queue.Outcome], worker string) (statement string, args []any) {
	isDone := func(o queue.Outcome) bool { return o.Verb == queue.Done }
	keep := b.options.Retention.keepsDone()
	if !slices.ContainsFunc(h.items, func(o queue.Outcome) bool { return !isDone(o) }) {
		ids, fences := h.arrays()
		if keep {
			return b.sql.settleDone, []any{ids, fences, worker}
		}
		return b.sql.settleDrop, []any{ids, fences, worker}
	}
	done := h.only(isDone)
	others := h.only(func(o queue.Outcome) bool { return o.Verb != queue.Done })
	doneIDs, doneFences := done.arrays()
	otherIDs, otherFences := others.arrays()
	return b.sql.settle, []any{doneIDs, doneFences, otherIDs, otherFences, verdicts(others.items), worker, keep}
}

// verdicts is the JSON object that sql/settle.sql looks outcomes up in.
func verdicts(outcomes []queue.Outcome) string {
	byID := make(map[string][3]any, len(outcomes))
	for _, o := range outcomes {
		byID[strconv.FormatInt(o.Job.ID, 10)] = [3]any{o.Verb.String(), microseconds(max(o.Delay, 0)), queue.ErrorText(o.Err)}
	}
	text, _ := json.Marshal(byID) // strings and numbers always marshal
	return string(text)
}
