package router

import (
	"cmp"
	"context"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// schedules are the home's. The home enqueues what they say, so their queues must be the home's.
type schedules struct {
	driver.Scheduler
	router *Queue
}

// SetSchedules implements [driver.Scheduler].
func (s schedules) SetSchedules(ctx context.Context, db queue.DB, all ...queue.Schedule) error {
	if err := s.check(all); err != nil {
		return err
	}
	return s.Scheduler.SetSchedules(ctx, db, all...)
}

// DeclareSchedules implements [driver.Scheduler].
func (s schedules) DeclareSchedules(ctx context.Context, db queue.DB, d queue.Declaration) (n int, err error) {
	if err := s.check(d.Schedules); err != nil {
		return 0, err
	}
	return s.Scheduler.DeclareSchedules(ctx, db, d)
}

// check returns an error for a schedule whose queue lives elsewhere.
func (s schedules) check(all []queue.Schedule) error {
	for _, one := range all {
		if one.Job != nil && s.router.route(one.Job.Queue) != s.router.home {
			return invalid("Job.Queue", "%q of schedule %q is on another backend: let a handler of the home enqueue there",
				one.Job.Queue, one.Name)
		}
	}
	return nil
}

// pauser pauses kinds and schedules in the home, and queues and groups where they live.
type pauser struct {
	driver.Pauser
	router *Queue
}

// Pause implements [driver.Pauser].
func (p pauser) Pause(ctx context.Context, db queue.DB, target queue.Target, paused bool) (changed bool, err error) {
	if err := driver.CheckTarget(target); err != nil {
		return false, err
	}
	t := p.router.home
	if name := cmp.Or(target.Queue, target.InQueue); name != "" {
		t = p.router.route(name)
	}
	if t == p.router.home {
		return p.Pauser.Pause(ctx, db, target, paused)
	}
	if db != nil {
		return false, invalid("DB", "%s is on another backend than this transaction: pass nil", target)
	}
	other, err := capability[driver.Pauser](t)
	if err != nil {
		return false, err
	}
	return other.Pause(ctx, nil, target, paused)
}

// txClaimer claims from queues of the home.
type txClaimer struct {
	driver.TxClaimer
	router *Queue
}

// ClaimTx implements [driver.TxClaimer].
func (c txClaimer) ClaimTx(ctx context.Context, tx queue.DB, req queue.ClaimRequest) (*queue.Job, error) {
	for _, name := range req.Queues {
		if c.router.route(name) != c.router.home {
			return nil, invalid("Queues", "%q is on another backend than this transaction", name)
		}
	}
	return c.TxClaimer.ClaimTx(ctx, tx, req)
}

// fleet is the home's, with the jobs that workers hold in all backends.
type fleet struct {
	driver.Fleet
	router *Queue
}

// Runs implements [driver.Fleet].
func (f fleet) Runs(ctx context.Context, most int, workers ...string) ([]driver.RunningJob, error) {
	return f.router.runsOf(ctx, most, workers)
}
