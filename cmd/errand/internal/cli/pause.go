package cli

import (
	"cmp"
	"context"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// pauseResult is something that was paused or resumed.
type pauseResult struct {
	Name    string `json:"name"`
	Group   string `json:"group,omitempty"` // of the queue Name; "" if it was the whole queue
	Paused  bool   `json:"paused"`
	Changed bool   `json:"changed"` // false if it was so before
}

// Pause pauses or resumes targets, with an audit entry for each, and writes what it has done. what
// is "queues", "kinds" or "schedules", and names are the columns of a target's name.
func (a *App) Pause(ctx context.Context, d *dburl.Database, what, names string, targets []queue.Target, paused bool) error {
	pauser, err := Need[driver.Pauser](d)
	if err != nil {
		return err
	}
	action := what + ".resume"
	if paused {
		action = what + ".pause"
	}
	var list []pauseResult
	for _, t := range targets {
		r := pauseResult{Name: cmp.Or(t.Queue, t.InQueue, t.Kind, t.Schedule), Group: t.Group, Paused: paused}
		err := a.Act(ctx, d, queue.AuditEntry{Action: action, Selection: t.String()}, func(db queue.DB, entry *queue.AuditEntry) (err error) {
			if r.Changed, err = pauser.Pause(ctx, db, t, paused); r.Changed {
				entry.Count = 1
			}
			return err
		})
		if err != nil {
			return err
		}
		list = append(list, r)
	}
	return a.writePauses(names, list)
}

func (a *App) writePauses(names string, list []pauseResult) error {
	return Write(a, list, func() Table {
		t := Table{Columns: Columns(names + " PAUSED CHANGED")}
		for _, r := range list {
			cells := []string{r.Name}
			if r.Group != "" {
				cells = append(cells, r.Group)
			}
			t.Add(append(cells, YesNo(r.Paused), YesNo(r.Changed))...)
		}
		return t
	})
}
