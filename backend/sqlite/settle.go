package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
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
	s := b.newSettling(db, outcomes)
	err = b.onHandle(ctx, "settle", db, s.record)
	if errors.Is(err, errSomeLost) {
		err = b.onHandle(ctx, "settle", db, s.record)
	}
	if err != nil {
		return nil, err
	}
	b.wakeRequeued(b.isOwn(db), s.again)
	return s.lost, nil
}

// settling is one call of Settle. One goroutine uses it.
type settling struct {
	b            *Backend
	caller       queue.DB // the handle that the caller gave, nil for none
	outcomes     []queue.Outcome
	done, others []claimed[queue.Outcome] // the outcomes by claim: of done jobs, and of the others
	stale        []*queue.Job             // jobs that are lost without a look at the database
	counting     bool                     // see settleDone

	lost  []*queue.Job
	again requeued
}

func (b *Backend) newSettling(db queue.DB, outcomes []queue.Outcome) *settling {
	s := &settling{b: b, caller: db, outcomes: outcomes, counting: b.isOwn(db)}
	groups, stale := byClaim(outcomes, func(o queue.Outcome) *queue.Job { return o.Job })
	s.stale = stale
	for _, g := range groups {
		d, o := g.Split(func(o queue.Outcome) bool { return o.Action == queue.Done })
		if len(d.Items) > 0 {
			s.done = append(s.done, claimed[queue.Outcome]{d, g.fence})
		}
		if len(o.Items) > 0 {
			s.others = append(s.others, claimed[queue.Outcome]{o, g.fence})
		}
	}
	return s
}

// record records the outcomes in the transaction db, and sets lost and again. It begins anew when
// it is called again.
func (s *settling) record(ctx context.Context, db queue.DB) error {
	s.lost, s.again = slices.Clone(s.stale), requeued{}
	if err := s.b.throttle(ctx, db, s.outcomes); err != nil {
		return err
	}
	if err := s.recordDone(ctx, db); err != nil {
		return err
	}
	if err := s.recordOthers(ctx, db); err != nil {
		return err
	}
	if err := s.b.keepOutputs(ctx, db, s.outcomes, s.lost); err != nil {
		return err
	}
	return s.b.bumpID(ctx, db, &s.again)
}

// recordDone records the outcomes of the jobs that are done.
func (s *settling) recordDone(ctx context.Context, db queue.DB) error {
	for _, g := range s.done {
		if g.Worker == "" {
			if _, err := s.resume(ctx, db, g); err != nil {
				return err
			}
			continue
		}
		if err := s.b.settleDone(ctx, db, g, s.counting, &s.lost); err != nil {
			s.counting = false
			return err
		}
	}
	return nil
}

// recordOthers records the outcomes of the jobs that are not done.
func (s *settling) recordOthers(ctx context.Context, db queue.DB) (err error) {
	for _, g := range s.others {
		if g.Worker == "" {
			if g, err = s.resume(ctx, db, g); err != nil {
				return err
			}
		}
		if err := s.b.settleOthers(ctx, db, g, &s.lost, &s.again); err != nil {
			return err
		}
	}
	return nil
}

// resume calls Backend.resume, and appends the lost jobs to s.lost.
func (s *settling) resume(ctx context.Context, db queue.DB, g claimed[queue.Outcome]) (claimed[queue.Outcome], error) {
	resumed, lost, err := s.b.resume(ctx, s.caller, db, g)
	s.lost = append(s.lost, lost...)
	return resumed, err
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
		}, b.sql["settle"], actions(part, at), g.fence, g.Worker, at)
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
	query, args := b.sql["settle_drop"], []any{idsOf(g), g.fence, g.Worker}
	if b.options.Retention.KeepsCompleted() {
		query, args = b.sql["settle_done"], append(args, now())
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
		if stack := driver.StackText(o.Err); stack != "" {
			l.string(stack)
		}
		l.end()
	}
	return l.String()
}

// queryIDs reads a column of ids.
func queryIDs(ctx context.Context, db queue.DB, query string, args ...any) ([]int64, error) {
	return queryAll(ctx, db, sqlkit.ScanValue[int64], query, args...)
}
