package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// An operation changes jobs.
type operation struct {
	name     string         // such as redrive
	past     string         // such as redriven
	statuses []queue.Status // that it acts on
	usual    []queue.Status // those that filters choose without --status
	needsKey bool           // it leaves a job alone whose key a live job has
	change   func(ctx context.Context, d *dburl.Database, db queue.DB, which queue.Selection) (int, error)
}

// live are the statuses of jobs that have not ended.
var live = driver.Cancellable()

func (a app) redriveCommand() *cobra.Command {
	return a.operationCommand(&cobra.Command{
		Use:     "redrive [ID...]",
		Aliases: []string{"retry"},
		Short:   "Make dead, cancelled or held jobs pending again",
		Long: `jobs redrive makes jobs pending and due now, with all their attempts. With filters
it acts on dead jobs, or with --status on cancelled or held jobs. A job stays as
it is if a live job has its key; the answer then names the live job.`,
		Example: `  errand jobs redrive 42
  errand jobs redrive --kind email.welcome --queue emails`,
	}, &operation{
		name: "redrive", past: "redriven", usual: []queue.Status{queue.StatusDead}, needsKey: true,
		statuses: driver.Redrivable(),
		change: func(ctx context.Context, d *dburl.Database, db queue.DB, which queue.Selection) (int, error) {
			redriver, err := cli.Need[driver.Editor](d)
			if err != nil {
				return 0, err
			}
			return redriver.Redrive(ctx, db, which)
		},
	})
}

func (a app) cancelCommand() *cobra.Command {
	return a.operationCommand(&cobra.Command{
		Use:   "cancel [ID...]",
		Short: "Cancel pending, held and running jobs",
		Long: `jobs cancel cancels pending and held jobs at once. The worker of a running job is
asked to cancel the job, and ends the context of its handler.`,
		Example: `  errand jobs cancel 42
  errand jobs cancel --group acme --status pending`,
	}, &operation{
		name: "cancel", past: "cancelled, or asked to end",
		statuses: live, usual: live,
		change: func(ctx context.Context, d *dburl.Database, db queue.DB, which queue.Selection) (int, error) {
			canceller, err := cli.Need[driver.Canceller](d)
			if err != nil {
				return 0, err
			}
			return canceller.Cancel(ctx, db, which)
		},
	})
}

func (a app) rescheduleCommand() *cobra.Command {
	var change queue.JobChange
	var at string
	cmd := a.operationCommand(&cobra.Command{
		Use:   "reschedule [ID...] --now|--in DURATION|--at TIME",
		Short: "Change when pending and held jobs are due",
		Long: `jobs reschedule changes when jobs are due, by the database's clock. With --now a
held job becomes pending.`,
		Example: `  errand jobs reschedule 42 --now
  errand jobs reschedule --kind report.build --in 1h`,
		PreRunE: func(*cobra.Command, []string) (err error) {
			if change.ScheduledAt, err = parseTime("--at", at); err != nil {
				return err
			}
			return change.Check(0)
		},
	}, &operation{
		name: "reschedule", past: "rescheduled",
		statuses: live[:2], usual: live[:2],
		change: func(ctx context.Context, d *dburl.Database, db queue.DB, which queue.Selection) (int, error) {
			editor, err := cli.Need[driver.Editor](d)
			if err != nil {
				return 0, err
			}
			return editor.Edit(ctx, db, which, change)
		},
	})
	cmd.Flags().BoolVar(&change.RunNow, "now", false, "due now")
	cmd.Flags().DurationVar(&change.Delay, "in", 0, "due after this time, such as 10m")
	cmd.Flags().StringVar(&at, "at", "", "due at this RFC 3339 `time`")
	cmd.MarkFlagsOneRequired("now", "in", "at")
	cmd.MarkFlagsMutuallyExclusive("now", "in", "at")
	return cmd
}

func (a app) deleteCommand() *cobra.Command {
	return a.operationCommand(&cobra.Command{
		Use:   "delete [ID...]",
		Short: "Delete jobs for good, except running jobs",
		Long: `jobs delete deletes jobs, with their results. Nothing of a deleted job is left,
not in an archive either. With filters it acts on dead and cancelled jobs, or
with --status on pending, held or completed jobs.`,
		Example: `  errand jobs delete 42
  errand jobs delete --kind email.welcome --status cancelled`,
	}, &operation{
		name: "delete", past: "deleted", usual: []queue.Status{queue.StatusDead, queue.StatusCancelled},
		statuses: []queue.Status{queue.StatusDead, queue.StatusCancelled, queue.StatusPending, queue.StatusHeld, queue.StatusCompleted},
		change: func(ctx context.Context, d *dburl.Database, db queue.DB, which queue.Selection) (int, error) {
			deleter, err := cli.Need[driver.Editor](d)
			if err != nil {
				return 0, err
			}
			return deleter.Delete(ctx, db, which)
		},
	})
}
