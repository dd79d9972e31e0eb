package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// outcome is the answer of an operation.
type outcome struct {
	Selected int `json:"selected"`
	Changed  int `json:"changed"`
	// DryRun is with --dry-run: IDs are of the jobs that would be changed.
	DryRun bool    `json:"dry_run,omitempty"`
	IDs    []int64 `json:"ids,omitempty"`
}

// preview writes the jobs that would be changed, for a program that reads JSON.
func (a app) preview(jobs []queue.Record, selected int) error {
	o := outcome{Selected: selected, DryRun: true}
	for _, r := range jobs {
		o.IDs = append(o.IDs, r.ID)
	}
	return a.WriteOne(o, "")
}

// previewNone writes for a program that reads JSON that no job would be changed.
func (a app) previewNone() error {
	if a.IsTable() {
		return nil
	}
	return a.preview(nil, 0)
}

// operationCommand adds the flags of an operation to its command.
func (a app) operationCommand(cmd *cobra.Command, op *operation) *cobra.Command {
	var s selection
	cmd.Long += `

Name jobs by their IDs, or choose jobs by filters. With filters the command shows
how many jobs it has chosen, and ten of the jobs, and asks for the number. It
changes exactly the chosen jobs, and no job that comes later. Without a terminal
give --yes and --max.`
	flags := a.filterFlags(cmd, &s.filter, op.statuses)
	flags.IntVar(&s.max, "max", 10_000, "refuse if the filters choose more than `N` jobs")
	flags.BoolVar(&s.yes, "yes", false, "do not ask; needs --max")
	flags.BoolVar(&s.dryRun, "dry-run", false, "show the jobs, and change nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if s.ids, err = ParseIDs(args); err != nil {
			return err
		}
		if err := s.check(op, flags.Changed("max")); err != nil {
			return err
		}
		return a.Working(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.operate(ctx, d, op, s) })(cmd, args)
	}
	return a.Audited(cmd)
}

func (a app) operate(ctx context.Context, d *dburl.Database, op *operation, s selection) error {
	inspector, err := cli.Need[driver.Inspector](d)
	if err != nil {
		return err
	}
	if len(s.ids) > 0 {
		return a.operateNamed(ctx, d, inspector, op, s)
	}
	jobs, err := a.choose(ctx, d, inspector, op, s)
	if s.dryRun && len(jobs) == 0 && cli.IsNothing(err) {
		return cmp.Or(a.previewNone(), err)
	}
	if err != nil {
		return err
	}
	shown, err := a.details(ctx, d, inspector, jobs[:min(len(jobs), examples)])
	if err != nil {
		return err
	}
	if err := a.confirm(ctx, op, s, shown, len(jobs)); err != nil {
		return err
	}
	switch {
	case s.dryRun && a.IsTable():
		return nil // confirm has shown them
	case s.dryRun:
		return a.preview(jobs, len(jobs))
	}
	done, err := a.change(ctx, d, op, s, jobs)
	switch {
	case ctx.Err() != nil: // all that is said of the error then is that it was interrupted
		a.Notef("%d of %d jobs %s", done, len(jobs), op.past)
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%d of %d jobs %s, then: %w", done, len(jobs), op.past, err)
	}
	if err := a.noteKept(ctx, d, inspector, op, jobs, done); err != nil {
		return err
	}
	return a.report(op, outcome{Selected: len(jobs), Changed: done})
}

func (a app) report(op *operation, o outcome) error {
	if o.Changed == 0 {
		return cli.Refusedf("no job %s", op.past)
	}
	text := fmt.Sprintf("%d of %d jobs %s", o.Changed, o.Selected, op.past)
	return a.WriteOne(o, text)
}

// operateNamed acts on the jobs with the given IDs, and tells of each that it cannot act on.
func (a app) operateNamed(ctx context.Context, d *dburl.Database, inspector driver.Inspector, op *operation, s selection) error {
	var jobs []queue.Record
	missing, refused := 0, 0
	err := a.Step(ctx, d, func(ctx context.Context) error {
		for _, id := range s.ids {
			r, ok, err := inspector.Job(ctx, id)
			switch {
			case err != nil:
				return err
			case !ok:
				missing++
				a.Notef("no job %d", id)
			case !slices.Contains(op.statuses, r.Status):
				refused++
				a.Notef("job %d is %s: %s acts on %s", id, r.Status, op.name, joinStatuses(op.statuses))
			default:
				jobs = append(jobs, r)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	isMissing := missing > 0 && refused == 0 && len(jobs) == 0
	if s.dryRun {
		return a.previewNamed(op, jobs, isMissing)
	}
	done, err := a.change(ctx, d, op, s, jobs)
	switch {
	case err != nil:
		return err
	case done == 0 && isMissing:
		return cli.Nothingf("no job %s", op.past)
	}
	if err := a.noteKept(ctx, d, inspector, op, jobs, done); err != nil {
		return err
	}
	if err := a.report(op, outcome{Selected: len(s.ids), Changed: done}); err != nil {
		return err
	}
	if done < len(s.ids) {
		return cli.Refusedf("not all jobs %s", op.past)
	}
	return nil
}

// previewNamed shows the jobs on which an operation would act. If there are none, it returns the
// error that the operation would return.
func (a app) previewNamed(op *operation, jobs []queue.Record, isMissing bool) error {
	switch {
	case isMissing:
		return cmp.Or(a.previewNone(), cli.Nothingf("no job would be %s", op.past))
	case len(jobs) == 0:
		return cmp.Or(a.previewNone(), cli.Refusedf("no job would be %s", op.past))
	}
	if !a.IsTable() {
		return a.preview(jobs, len(jobs))
	}
	return a.WriteTable(jobTable(jobs, false))
}

const batch = 1000

// changeBatch runs the operation on some jobs, in a transaction with its entry in the audit log.
func (a app) changeBatch(ctx context.Context, d *dburl.Database, op *operation, s selection, which queue.Selection) (n int, err error) {
	entry := queue.AuditEntry{Action: "jobs." + op.name, Selection: s.text()}
	var pending int64
	if len(which.IDs) == 1 && which.IDs[0] > 0 { // the audit log takes no others; the selection has them
		entry.JobID = which.IDs[0]
		if which.Status == queue.StatusPending {
			pending = entry.JobID
		}
	}
	err = a.StepFor(ctx, d, pending, func(ctx context.Context) error {
		return a.Act(ctx, d, entry, func(db queue.DB, entry *queue.AuditEntry) (err error) {
			n, err = op.change(ctx, d, db, which)
			entry.Count = int64(n)
			return err
		})
	})
	if err != nil {
		return 0, err // nothing of it was committed
	}
	return n, nil
}

// change runs the operation on the jobs, a batch of one status a transaction.
func (a app) change(ctx context.Context, d *dburl.Database, op *operation, s selection, jobs []queue.Record) (done int, err error) {
	bar := a.Progress(op.name, len(jobs))
	defer bar.Close()
	for _, status := range op.statuses {
		var ids []int64
		for _, r := range jobs {
			if r.Status == status {
				ids = append(ids, r.ID)
			}
		}
		for part := range slices.Chunk(ids, batch) {
			n, err := a.changeBatch(ctx, d, op, s, queue.Selection{IDs: part, Status: status})
			if err != nil {
				return done, err
			}
			done += n
			bar.Add(len(part))
		}
	}
	return done, nil
}
