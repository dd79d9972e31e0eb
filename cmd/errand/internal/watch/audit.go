package watch

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

func (a app) auditCommand() *cobra.Command {
	var f queue.AuditFilter
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List the actions of people and programs, newest first",
		Long: `audit lists the audit log. Each command that changes something, except enqueue,
writes an entry in the transaction of its change. An entry has:

  the user and the host
  the action, such as jobs.cancel
  the selection: the IDs, filters or names that the command was given
  how many jobs, queues, kinds or schedules the action has changed
  the --reason`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Actor, "actor", "", "only actions of this actor")
	flags.StringVar(&f.Action, "action", "", "only this action, such as jobs.cancel")
	flags.Int64Var(&f.JobID, "job", 0, "only actions on one job, the job with this `ID`")
	flags.Int64Var(&f.Before, "before", 0, "only entries with a lower `ID`")
	flags.IntVar(&f.Limit, "limit", 50, "how many entries to list at most, up to 1000")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := f.Checked(); err != nil {
			return err
		}
		return a.Reading(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.audit(ctx, d, f) })(cmd, args)
	}
	return cmd
}

func (a app) audit(ctx context.Context, d *dburl.Database, f queue.AuditFilter) error {
	auditor, ok := driver.As[driver.Auditor](d.Queue)
	if !ok {
		return cli.Refusedf("%s has no audit log", d.Description)
	}
	list, next, err := auditor.AuditLog(ctx, f)
	if err != nil {
		return err
	}
	if next != 0 {
		a.Notef("listed %d, and there may be more: --before %d goes on", len(list), next)
	}
	for i := range list {
		list[i].At = list[i].At.UTC()
	}
	return cli.Write(a.App, list, func() cli.Table {
		t := cli.Table{Columns: cli.Columns("AT ACTOR ACTION COUNT SELECTION REASON | ID")}
		for _, e := range list {
			t.Add(cli.TimeText(e.At), e.Actor, e.Action, strconv.FormatInt(e.Count, 10), e.Selection, e.Reason, strconv.FormatInt(e.ID, 10))
		}
		return t
	})
}
