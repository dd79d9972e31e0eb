package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Settle implements [queue.Consumer]. sql/settle_done.sql records jobs that are done, or
// sql/settle_drop.sql if completed jobs are not kept. sql/settle.sql records all other outcomes.
// Settle runs these statements for each claim that the jobs come from, in one transaction. Outputs
// follow in it, with sql/keep_output.sql.
func (b *Backend) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	for _, o := range outcomes {
		if err := o.Check(); err != nil {
			return nil, fmt.Errorf("sqlite: settle: %w", err)
		}
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	groups, stale := byClaim(outcomes, func(o queue.Outcome) *queue.Job { return o.Job })
	var done, others []claimed[queue.Outcome]
	for _, g := range groups {
		d, o := g.Split(func(o queue.Outcome) bool { return o.Action == queue.Done })
		if len(d.Items) > 0 {
			done = append(done, claimed[queue.Outcome]{d, g.fence})
		}
		if len(o.Items) > 0 {
			others = append(others, claimed[queue.Outcome]{o, g.fence})
		}
	}
	own := b.isOwn(db)
	counting := own // see settleDone
	var again requeued
	caller := db
	settle := func(ctx context.Context, db queue.DB) error {
		lost, again = slices.Clone(stale), requeued{}
		if err := b.throttle(ctx, db, outcomes); err != nil {
			return err
		}
		for _, g := range done {
			if g.Worker == "" {
				_, lostJobs, err := b.resume(ctx, caller, db, g)
				if lost = append(lost, lostJobs...); err != nil {
					return err
				}
				continue
			}
			if err := b.settleDone(ctx, db, g, counting, &lost); err != nil {
				counting = false
				return err
			}
		}
		for _, g := range others {
			if g.Worker == "" {
				resumed, lostJobs, err := b.resume(ctx, caller, db, g)
				if lost = append(lost, lostJobs...); err != nil {
					return err
				}
				g = resumed
			}
			if err := b.settleOthers(ctx, db, g, &lost, &again); err != nil {
				return err
			}
		}
		if err := b.keepOutputs(ctx, db, outcomes, lost); err != nil {
			return err
		}
		return b.bumpID(ctx, db, &again)
	}
	err = b.onHandle(ctx, "settle", db, settle)
	if errors.Is(err, errSomeLost) {
		err = b.onHandle(ctx, "settle", db, settle)
	}
	if err != nil {
		return nil, err
	}
	b.wakeRequeued(own, again)
	return lost, nil
}

// settledAtOnce is how many outcomes one statement records. For each job it reads, on average, half
// of them.
const settledAtOnce = 100

// settleOthers settles jobs that are not done. It appends the lost jobs to lost, and adds the
// queues of the jobs that are pending again to again.
func (b *Backend) settleOthers(ctx context.Context, db queue.DB, g claimed[queue.Outcome], lost *[]*queue.Job, again *requeued) error {
	var ids []int64
	var id int64
	var name, status string
	at := now()
	for part := range slices.Chunk(g.Items, settledAtOnce) {
		err := queryRows(ctx, db, func(rows *sql.Rows) error {
			err := rows.Scan(&id, &name, &status)
			ids = append(ids, id)
			if status == string(queue.StatusPending) {
				again.add(name)
			}
			return err
		}, b.sql.settle, actions(part, at), g.fence, g.Worker, at)
		if err != nil {
			return err
		}
	}
	*lost = append(*lost, g.Without(ids)...)
	return nil
}

// errSomeLost makes Settle roll back and begin again, to find out which of its jobs are lost.
var errSomeLost = errors.New("some of the jobs are lost")

// settleDone settles jobs that are done, and appends the lost ones to lost. With counting it does
// not read the ids of the settled jobs but only counts them, which is a quarter faster. If some are
// missing, it then returns errSomeLost.
func (b *Backend) settleDone(ctx context.Context, db queue.DB, g claimed[queue.Outcome], counting bool, lost *[]*queue.Job) error {
	query, args := b.sql.settleDrop, []any{idsOf(g), g.fence, g.Worker}
	if b.options.Retention.KeepsCompleted() {
		query, args = b.sql.settleDone, append(args, now())
	}
	if counting {
		result, err := exec(ctx, db, withoutReturning(query), args...)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n != int64(len(g.Items)) {
			return errors.Join(err, errSomeLost)
		}
		return nil
	}
	ids, err := queryIDs(ctx, db, query, args...)
	if err == nil {
		*lost = append(*lost, g.Without(ids)...)
	}
	return err
}

// actions returns the JSON array of outcomes that sql/settle.sql reads. Delays count from at.
func actions(outcomes []queue.Outcome, at int64) string {
	var l list
	for _, o := range outcomes {
		l.begin()
		l.int(o.Job.ID)
		l.string(o.Action.String())
		switch {
		case o.Delay > 0:
			l.int(at + 1 + sqlkit.Microseconds(o.Delay)) // at has been truncated
		case o.Action == queue.Release:
			l.null()
		default:
			l.int(at)
		}
		l.string(queue.ErrorText(o.Err))
		if stack := queue.StackText(o.Err); stack != "" {
			l.string(stack)
		}
		l.end()
	}
	return l.String()
}

// queryIDs reads a column of ids.
func queryIDs(ctx context.Context, db queue.DB, query string, args ...any) (ids []int64, err error) {
	err = queryRows(ctx, db, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, query, args...)
	return ids, err
}
