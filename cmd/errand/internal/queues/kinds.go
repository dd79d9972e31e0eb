package queues

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
)

func (a app) kindsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kinds",
		Short: "List, pause and resume kinds of jobs",
	}
	return cli.Group(cmd,
		&cobra.Command{
			Use:   "list",
			Short: "List the kinds of the newest jobs, and the paused ones",
			Long: `kinds list looks at the newest jobs of each status, a thousand at most, and
counts them by kind and status. If a status has more jobs, + follows each of its
counts, in JSON the status is in at_least, and a kind of older jobs may be
missing: ask for such a kind with errand jobs list --kind KIND.`,
			Args: cobra.NoArgs,
			RunE: a.Reading(a.listKinds),
		},
		a.pauseKindCommand("pause", "Make workers claim no more jobs of some kinds, in any queue", true),
		a.pauseKindCommand("resume", "End the pause of some kinds", false))
}

func (a app) pauseKindCommand(name, short string, paused bool) *cobra.Command {
	unseen := false
	cmd := &cobra.Command{
		Use:               name + " KIND...",
		Short:             short,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteKinds,
		RunE: a.Writing(func(ctx context.Context, d *dburl.Database, args []string) error {
			return a.pauseKinds(ctx, d, args, paused, unseen)
		}),
	}
	cmd.Flags().BoolVar(&unseen, "unseen", false, "accept a kind that no job, schedule or live worker has")
	return a.Audited(cmd)
}

func (a app) listKinds(ctx context.Context, d *dburl.Database, _ []string) error {
	list, atLeast, err := cli.SeenKinds(ctx, d)
	if err != nil {
		return err
	}
	if len(atLeast) > 0 {
		a.Notef("there are more jobs: the counts are of the newest %d of each status", cli.MaxSeen)
	}
	return cli.Write(a.App, list, func() cli.Table {
		t := cli.Table{Columns: cli.Columns("KIND PAUSED PENDING RUNNING HELD DEAD CANCELLED COMPLETED")}
		for _, k := range list {
			row := []string{k.Kind, cli.YesNo(k.Paused)}
			for _, status := range cli.Statuses {
				count := strconv.Itoa(k.Seen[status])
				if slices.Contains(atLeast, status) {
					count += "+"
				}
				row = append(row, count)
			}
			t.Add(row...)
		}
		return t
	})
}

func (a app) pauseKinds(ctx context.Context, d *dburl.Database, names []string, paused, unseen bool) error {
	if err := a.checkKinds(ctx, d, names, unseen); err != nil {
		return err
	}
	var targets []queue.Target
	for _, name := range names {
		targets = append(targets, queue.Target{Kind: name})
	}
	return a.Pause(ctx, d, "kinds", "KIND", targets, paused)
}
