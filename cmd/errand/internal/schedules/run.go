package schedules

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// runOutcome is what errand schedules run tells.
type runOutcome struct {
	Schedule  string `json:"schedule"`
	ID        int64  `json:"id"`
	Queue     string `json:"queue"`
	Kind      string `json:"kind"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Replaced  bool   `json:"replaced,omitempty"`
}

func (a app) runScheduleCommand() *cobra.Command {
	return a.Audited(&cobra.Command{
		Use:   "run NAME",
		Short: "Enqueue the job of a schedule now, once",
		Long: `schedules run enqueues the job of a schedule now, as a tick of this moment would, and
prints its ID. The ticks of the schedule stay as they are, and it may be paused. If
a live job has the schedule's key, such as that of the last tick, it writes nothing
and prints the ID of that job. The database's user needs the rights to enqueue.`,
		Example:           `  errand schedules run nightly-report --reason 'the night was lost'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteSchedules,
		RunE: a.Writing(func(ctx context.Context, d *dburl.Database, args []string) error {
			return a.runSchedule(ctx, d, args[0])
		}),
	})
}

func (a app) runSchedule(ctx context.Context, d *dburl.Database, name string) error {
	scheduler, err := cli.Need[driver.Scheduler](d)
	if err != nil {
		return err
	}
	all, err := scheduler.Schedules(ctx)
	if err != nil {
		return err
	}
	s, err := find(all, name)
	if err != nil {
		return err
	}
	if d.Scheme == dburl.Postgres && s.Job.Payload == nil {
		return cli.Refusedf("the database's user may not read what schedule %s enqueues: it needs the rights to enqueue", name)
	}
	job, err := jobNow(s.Schedule, time.Now())
	if err != nil {
		return err
	}
	entry := queue.AuditEntry{Action: "schedules.run", Selection: queue.Target{Schedule: name}.String()}
	err = a.Act(ctx, d, entry, func(db queue.DB, entry *queue.AuditEntry) error {
		err := d.Queue.Enqueue(ctx, db, job)
		if entry.JobID = job.ID; err == nil && !job.Duplicate {
			entry.Count = 1
		}
		return err
	})
	if err != nil {
		return err
	}
	if job.Duplicate {
		a.Notef("nothing written: job %d has the key %s", job.ID, job.Key)
	}
	return a.WriteOne(runOutcome{name, job.ID, job.Queue, job.Kind, job.Duplicate, job.Replaced}, fmt.Sprint(job.ID))
}

// jobNow returns the job of a tick at that time, whether or not the schedule has one.
func jobNow(s queue.Schedule, now time.Time) (*queue.Job, error) {
	s.Spec, s.Grace = "@every 1h", 0 // its own times do not matter
	jobs, _, err := s.Fire(now, now)
	if err != nil {
		return nil, err
	}
	return jobs[0], nil
}
