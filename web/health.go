package web

import (
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
)

const (
	// doctorInterval is the shortest time between two examinations, and doctorTimeout how long one
	// may take.
	doctorInterval = 30 * time.Second
	doctorTimeout  = 30 * time.Second
	// explainTimeout is how long finding out why a job does not run may take.
	explainTimeout = 10 * time.Second
)

// healthPage is what the page of health shows.
type healthPage struct {
	IsKnown bool
	At      time.Time
	Backend string
	Level   ops.Level
	Word    string
	Class   string         // of the style sheet
	Then    string         // the Word when it was examined, if that is too long ago
	Checks  []doctor.Check // what is wrong first
}

func health(q *request) error {
	if q.h.source.queue == nil {
		return errNotFound
	}
	r := q.h.samples.doctor.get(q.Context())
	page := healthPage{IsKnown: !r.At.IsZero(), At: r.At, Backend: r.Value.Backend, Level: r.Value.Level()}
	page.Word = map[ops.Level]string{ops.OK: "Healthy", ops.Warn: "Look at it soon", ops.Fail: "Not healthy"}[page.Level]
	page.Class = string(page.Level)
	if page.IsKnown && q.now.Sub(r.At) > trustedFor {
		page.Then, page.Word, page.Class = page.Word, "Unknown", "unknown"
	}
	for _, level := range []ops.Level{ops.Fail, ops.Warn, ops.OK, ops.Skipped} {
		for _, c := range r.Value.Checks {
			if c.Level == level {
				page.Checks = append(page.Checks, c)
			}
		}
	}
	v := q.view("Health", page)
	v.showAges(late("Health", r))
	return q.render("health", v)
}
