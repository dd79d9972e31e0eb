package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

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
	groups, lost := byWorker(outcomes, func(o queue.Outcome) *queue.Job { return o.Job })
	for _, worker := range slices.Sorted(maps.Keys(groups)) { // rows stay locked in a caller's transaction: in one order
		held := groups[worker]
		statement, args := b.settling(held, worker)
		err := b.on(ctx, "settle", db, func(db queue.DB) error {
			gone, err := queryIDs(ctx, db, statement, args...)
			if err == nil {
				lost = append(lost, held.withIDs(gone)...)
			}
			return err
		})
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
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
