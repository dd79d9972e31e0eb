package web

import (
	"context"

	"github.com/errandhq/errand/queue"
)

func pauseQueue(q *request) error {
	name, err := nameIn(q.PathValue("queue"))
	if err != nil {
		return err
	}
	return q.pause(queue.Target{Queue: name}, "queues", name, "queues/"+segment(name))
}

func pauseKind(q *request) error {
	name, err := nameIn(q.PathValue("kind"))
	if err != nil {
		return err
	}
	return q.pause(queue.Target{Kind: name}, "kinds", name, "kinds")
}

func pauseSchedule(q *request) error {
	name, err := nameIn(q.PathValue("schedule"))
	if err != nil {
		return err
	}
	return q.pause(queue.Target{Schedule: name}, "schedules", name, "schedules")
}

// pause pauses or resumes the target, as the form asks for, and sends the browser to page. what is
// "queues", "kinds" or "schedules".
func (q *request) pause(target queue.Target, what, name, page string) error {
	if q.h.source.pauser == nil {
		return errNotFound
	}
	action, paused := what+".resume", false
	switch q.PostFormValue("paused") {
	case "true":
		action, paused = what+".pause", true
	case "false":
	default:
		return &queue.InvalidError{Field: "paused", Problem: "neither true nor false"}
	}
	return q.act(action, targetOf(what, name), page, func(ctx context.Context, db queue.DB) (int, error) {
		changed, err := q.h.source.pauser.Pause(ctx, db, target, paused)
		if !changed {
			return 0, err
		}
		return 1, err
	})
}
