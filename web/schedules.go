package web

import (
	"context"

	"github.com/errandhq/errand/queue"
)

// schedulesPage is what the page of schedules shows.
type schedulesPage struct{ Schedules []queue.ScheduleRecord }

func schedules(q *request) error {
	if q.h.source.scheduler == nil {
		return errNotFound
	}
	all := q.h.samples.schedules.get(q.Context())
	v := q.view("Schedules", schedulesPage{all.Value})
	v.showAges(late("Schedules", all))
	return q.render("schedules", v)
}

func pauseSchedule(q *request) error {
	name, err := nameIn(q.PathValue("schedule"))
	if err != nil || q.h.source.scheduler == nil {
		return errNotFound
	}
	paused, action, err := q.wantsPause("schedules")
	if err != nil {
		return err
	}
	return q.act(action, targetOf("schedules", name), "schedules", func(ctx context.Context, db queue.DB) (int, error) {
		return q.h.source.scheduler.PauseSchedules(ctx, db, paused, name)
	})
}
