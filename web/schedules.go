package web

import (
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
