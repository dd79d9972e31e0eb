package jobs

import (
	"context"
	"strconv"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// maxKept is how many jobs noteKept reads.
const maxKept = 1000

// noteKept says why chosen jobs stay as they are: live jobs have the keys of jobs to redrive, or
// jobs have changed meanwhile. done is how many jobs the operation has changed.
func (a app) noteKept(ctx context.Context, d *dburl.Database, inspector driver.Inspector, op *operation, jobs []queue.Record, done int) error {
	kept, told := len(jobs)-done, 0
	if kept == 0 {
		return nil
	}
	if !op.needsKey {
		a.Notef("%s as before: changed meanwhile by a program or a person", staysText(kept))
		return nil
	}
	err := a.Step(ctx, d, func(ctx context.Context) error {
		for _, r := range jobs[:min(len(jobs), maxKept)] {
			if told == min(kept, examples) {
				return nil
			}
			isTold, err := a.noteHolder(ctx, inspector, r)
			if err != nil {
				return err
			}
			if isTold {
				told++
			}
		}
		return nil
	})
	if err == nil && told < kept {
		a.Notef("%s as before: changed meanwhile by a program or a person, or live jobs have their keys", staysText(kept-told))
	}
	return err
}

func staysText(n int) string {
	if n == 1 {
		return "1 job stays"
	}
	return cli.CountText(n, "job") + " stay"
}

// noteHolder says which live job has the key of a job to redrive, if there is such a live job.
func (a app) noteHolder(ctx context.Context, inspector driver.Inspector, chosen queue.Record) (isTold bool, err error) {
	r, ok, err := inspector.Job(ctx, chosen.ID)
	if err != nil || !ok || r.Status != chosen.Status || r.Key == "" {
		return false, err
	}
	for _, status := range live {
		page, _, err := inspector.Jobs(ctx, queue.Filter{Queue: r.Queue, Key: r.Key, Status: status, Limit: 1})
		if err != nil {
			return false, err
		}
		for _, holder := range page {
			a.Notef("job %d stays %s: job %d, which is %s, has its key %s. Wait until job %d has ended, or cancel it: %s",
				r.ID, r.Status, holder.ID, holder.Status, r.Key, holder.ID, a.Command("jobs", "cancel", strconv.FormatInt(holder.ID, 10)))
			return true, nil
		}
	}
	return false, nil
}
