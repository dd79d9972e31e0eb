package router

import (
	"cmp"
	"context"
	"slices"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// chosen is what a choice of jobs means for one backend.
type chosen struct {
	*target
	which queue.Selection
}

// choose shares a choice out to backends: its IDs to those that they name, and any other choice to
// all. Through a db it can only mean the home.
func (q *Queue) choose(db queue.DB, which queue.Selection) (parts []chosen, err error) {
	switch {
	case which.IDs == nil && db != nil && which.Queue != "" && q.route(which.Queue) == q.home:
		return []chosen{{q.home, which}}, nil
	case which.IDs == nil:
		for _, t := range q.targets {
			parts = append(parts, chosen{t, which})
		}
	default:
		parts = q.chooseIDs(which)
	}
	if db != nil && slices.ContainsFunc(parts, func(c chosen) bool { return c.target != q.home }) {
		return nil, invalid("DB", "the jobs may be in another backend than this transaction: pass nil, or choose a queue or IDs of the home")
	}
	return parts, nil
}

// chooseIDs shares the IDs of a choice out to the backends that they name.
func (q *Queue) chooseIDs(which queue.Selection) (parts []chosen) {
	for _, id := range which.IDs {
		t, own := q.ofID(id)
		if t == nil {
			continue
		}
		i := slices.IndexFunc(parts, func(c chosen) bool { return c.target == t })
		if i < 0 {
			i = len(parts)
			parts = append(parts, chosen{t, which})
			parts[i].which.IDs = nil
		}
		parts[i].which.IDs = append(parts[i].which.IDs, own)
	}
	return parts
}

// change changes the chosen jobs in one backend after the other, by a capability. A backend without
// it is an error only if the choice names one of its jobs.
func change[T any](q *Queue, db queue.DB, which queue.Selection, f func(can T, which queue.Selection) (int, error)) (n int, err error) {
	parts, err := q.choose(db, which)
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		can, err := capability[T](p.target)
		if err != nil && which.IDs == nil {
			continue
		}
		if err != nil {
			return n, err
		}
		changed, err := f(can, p.which)
		n += changed
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Cancel implements [driver.Canceller].
func (q *Queue) Cancel(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	if err := which.Check(driver.Cancellable()...); err != nil {
		return 0, err
	}
	return change(q, db, which, func(c driver.Canceller, own queue.Selection) (int, error) { return c.Cancel(ctx, db, own) })
}

// Redrive implements [driver.Editor].
func (q *Queue) Redrive(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	if err := which.Check(driver.Redrivable()...); err != nil {
		return 0, err
	}
	return change(q, db, which, func(c driver.Editor, own queue.Selection) (int, error) { return c.Redrive(ctx, db, own) })
}

// Delete implements [driver.Editor].
func (q *Queue) Delete(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	err = which.Check(driver.Deletable()...)
	if err != nil {
		return 0, err
	}
	return change(q, db, which, func(c driver.Editor, own queue.Selection) (int, error) { return c.Delete(ctx, db, own) })
}

// Edit implements [driver.Editor]. It moves jobs to queues of their own backend only: a change of
// the queue that chooses jobs without IDs concerns the backend of the new queue.
func (q *Queue) Edit(ctx context.Context, db queue.DB, which queue.Selection, c queue.JobChange) (n int, err error) {
	if err := cmp.Or(which.Check(driver.Editable()...), c.Check(q.options.MaxPayload)); err != nil {
		return 0, err
	}
	if c.Queue == "" {
		return change(q, db, which, func(e driver.Editor, own queue.Selection) (int, error) { return e.Edit(ctx, db, own, c) })
	}
	t := q.route(c.Queue)
	parts := q.chooseIDs(which)
	if which.Queue != "" && q.route(which.Queue) != t || slices.ContainsFunc(parts, func(p chosen) bool { return p.target != t }) {
		return 0, invalid("Queue", "%q is on another backend than the jobs", c.Queue)
	}
	if db != nil && t != q.home {
		return 0, invalid("DB", "queue %q is on another backend than this transaction: pass nil", c.Queue)
	}
	if which.IDs != nil {
		if len(parts) == 0 {
			return 0, nil
		}
		which = parts[0].which
	}
	e, err := capability[driver.Editor](t)
	if err != nil {
		return 0, err
	}
	return e.Edit(ctx, db, which, c)
}

// rulerOf returns the ruler of a queue's backend, for a change through db.
func (q *Queue) rulerOf(db queue.DB, name string) (driver.Ruler, error) {
	t := q.route(name)
	if db != nil && t != q.home {
		return nil, invalid("DB", "queue %q is on another backend than this transaction: pass nil", name)
	}
	return capability[driver.Ruler](t)
}

// SetRules implements [driver.Ruler]. It sets the rules of one backend after the other.
func (q *Queue) SetRules(ctx context.Context, db queue.DB, rules ...queue.Rule) error {
	byNumber := make([][]queue.Rule, len(q.targets))
	for _, r := range rules {
		if err := r.Check(); err != nil {
			return err
		}
		if _, err := q.rulerOf(db, r.Queue); err != nil {
			return err
		}
		number := q.route(r.Queue).number
		byNumber[number] = append(byNumber[number], r)
	}
	for _, own := range byNumber {
		if len(own) == 0 {
			continue
		}
		ruler, err := q.rulerOf(db, own[0].Queue)
		if err == nil {
			err = ruler.SetRules(ctx, db, own...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Rules implements [driver.Ruler]. It leaves out the rules of queues that live on other backends.
func (q *Queue) Rules(ctx context.Context) (all []queue.Rule, err error) {
	for _, c := range having[driver.Ruler](q) {
		rules, err := c.can.Rules(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			if q.route(r.Queue) == c.target {
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b queue.Rule) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Group, b.Group))
	})
	return all, nil
}

// RateWaits implements [driver.Ruler].
func (q *Queue) RateWaits(ctx context.Context, name string, groups ...string) ([]driver.RateWait, error) {
	teller, err := capability[driver.Ruler](q.route(name))
	if err != nil {
		return nil, err
	}
	return teller.RateWaits(ctx, name, groups...)
}
