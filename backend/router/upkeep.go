package router

import (
	"context"
	"database/sql"
	"errors"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Reclaim implements [driver.Reclaimer]. It leaves out a backend that is in an outage, or has been
// within the last seconds. If some of the others fail, and some do not, the error is a
// [*driver.PartialError]: nobody learns of what a backend that has not answered has reclaimed.
func (q *Queue) Reclaim(ctx context.Context, limit int) (jobs []*queue.Job, err error) {
	if limit < 1 {
		return nil, invalid("Limit", "%d: at least 1", limit)
	}
	var errs []error
	asked := 0
	all := having[driver.Reclaimer](q)
	for _, c := range all {
		if limit == len(jobs) || len(all) > 1 && c.health.isSettlingDown() {
			continue
		}
		asked++
		asking, cancel := patience(ctx, &c.health, len(all)-1)
		reclaimed, err := c.can.Reclaim(asking, limit-len(jobs))
		cancel()
		c.health.note(ctx, err)
		if err != nil {
			errs = append(errs, err)
		}
		for _, job := range reclaimed {
			job.ID = c.outward(job.ID)
		}
		jobs = append(jobs, reclaimed...)
	}
	switch {
	case len(errs) == 0:
		return jobs, nil
	case len(errs) == asked:
		return jobs, errors.Join(errs...)
	}
	return jobs, &driver.PartialError{Err: errors.Join(errs...)}
}

// Deaths implements [driver.DeathTeller], for the backends that reclaim jobs by themselves.
func (q *Queue) Deaths(ctx context.Context, queues []string) (jobs []*queue.Job, err error) {
	for _, r := range q.queuesOf(queues) {
		teller, ok := driver.As[driver.DeathTeller](r.Queue)
		if !ok {
			continue
		}
		own, failed := teller.Deaths(ctx, r.queues)
		err = errors.Join(err, failed)
		for _, job := range own {
			job.ID = r.outward(job.ID)
		}
		jobs = append(jobs, own...)
	}
	return jobs, err
}

// Prune implements [driver.Reclaimer], for one backend after the other. It leaves out one that has
// just failed, and returns its error only if all fail.
func (q *Queue) Prune(ctx context.Context) (removed int, more bool, err error) {
	var errs []error
	all := having[driver.Reclaimer](q)
	for _, c := range all {
		if len(all) > 1 && c.health.isLeftOut() {
			continue
		}
		asking, cancel := patience(ctx, &c.health, len(all)-1)
		n, goesOn, err := c.can.Prune(asking)
		cancel()
		c.health.note(ctx, err)
		if err != nil {
			errs = append(errs, err)
		}
		removed, more = removed+n, more || goesOn
	}
	if len(errs) == len(all) {
		return removed, more, errors.Join(errs...)
	}
	return removed, more, nil
}

// Reserve implements [driver.Pooled]. left is that of the backend with the fewest connections.
func (q *Queue) Reserve(n int, dbs ...*sql.DB) (left int, release func()) {
	var releases []func()
	for i, c := range having[driver.Pooled](q) {
		own, release := c.can.Reserve(n, dbs...)
		releases = append(releases, release)
		if i == 0 || own < left {
			left = own
		}
	}
	return left, func() {
		for _, release := range releases {
			release()
		}
	}
}
