package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/errandhq/errand/queue"
)

// Settle implements [queue.Consumer] with sql/settle.sql: one statement for the
// jobs of each worker, which is one statement when a worker calls it.
func (b *Backend) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	for _, o := range outcomes {
		if err := o.Check(); err != nil {
			return nil, fmt.Errorf("postgres: settle: %w", err)
		}
	}
	for worker, held := range byWorker(outcomes, func(o queue.Outcome) *queue.Job { return o.Job }) {
		_, fences := held.arrays()
		done, others, verdicts := split(held.items)
		err := b.on(ctx, "settle", db, func(db queue.DB) error {
			gone, err := queryIDs(ctx, db, b.sql.settle, done, others, verdicts, fences, worker, b.options.Retention.keepsDone())
			lost = append(lost, held.withIDs(gone)...)
			return err
		})
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// split separates what is done, of which the ids are all there is to say, from
// the other outcomes, as the statement's parameters.
func split(outcomes []queue.Outcome) (done, others, verdicts string) {
	var doneIDs, otherIDs array
	byID := make(map[string][3]any)
	for _, o := range outcomes {
		if o.Verb == queue.Done {
			doneIDs.int(o.Job.ID)
			continue
		}
		otherIDs.int(o.Job.ID)
		byID[strconv.FormatInt(o.Job.ID, 10)] = [3]any{o.Verb.String(), microseconds(max(o.Delay, 0)), queue.ErrorText(o.Err)}
	}
	if len(byID) == 0 {
		return doneIDs.String(), otherIDs.String(), "{}"
	}
	text, _ := json.Marshal(byID) // strings and numbers always marshal
	return doneIDs.String(), otherIDs.String(), string(text)
}
