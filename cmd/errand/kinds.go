package main

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

func (a *app) kindsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kinds",
		Short: "List, pause and resume kinds of jobs",
	}
	return group(cmd,
		&cobra.Command{
			Use:   "list",
			Short: "List the kinds of the newest jobs, and the paused ones",
			Long: `kinds list looks at the newest jobs of each status, a thousand at most. It
counts those by kind and status. If there are more, a count is followed by +, in
JSON its status is in at_least, and a kind of older jobs may be missing: ask for
it with errand jobs list --kind KIND.`,
			Args: cobra.NoArgs,
			RunE: a.reading(a.listKinds),
		},
		a.pauseKindCommand("pause", "Make workers claim no more jobs of these kinds, in any queue", true),
		a.pauseKindCommand("resume", "End the pause of these kinds", false))
}

func (a *app) pauseKindCommand(name, short string, paused bool) *cobra.Command {
	unseen := false
	cmd := &cobra.Command{
		Use:               name + " KIND...",
		Short:             short,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeKinds,
		RunE: a.writing(func(ctx context.Context, d *dburl.Database, args []string) error {
			return a.pauseKinds(ctx, d, args, paused, unseen)
		}),
	}
	cmd.Flags().BoolVar(&unseen, "unseen", false, "also a kind that no job, schedule or live worker has")
	return a.audited(cmd)
}

func (a *app) listKinds(ctx context.Context, d *dburl.Database, _ []string) error {
	list, atLeast, err := seenKinds(ctx, d)
	if err != nil {
		return err
	}
	if len(atLeast) > 0 {
		a.notef("there are more jobs: the counts are of the newest %d of each status", maxSeen)
	}
	return write(a, list, func() table {
		t := table{columns: columns("KIND PAUSED PENDING RUNNING HELD DEAD CANCELLED COMPLETED")}
		for _, k := range list {
			row := []string{k.Kind, yes(k.Paused)}
			for _, status := range statuses {
				count := strconv.Itoa(k.Seen[status])
				if slices.Contains(atLeast, status) {
					count += "+"
				}
				row = append(row, count)
			}
			t.add(row...)
		}
		return t
	})
}

func (a *app) pauseKinds(ctx context.Context, d *dburl.Database, names []string, paused, unseen bool) error {
	pauser, err := need[driver.Pauser](d)
	if err != nil {
		return err
	}
	if err := a.checkKinds(ctx, d, names, unseen); err != nil {
		return err
	}
	before, err := pauser.PausedKinds(ctx)
	if err != nil {
		return err
	}
	var list []changed
	for _, name := range names {
		c := changed{Name: name, Paused: paused, Changed: slices.Contains(before, name) != paused}
		err := a.act(ctx, d, pauseEntry("kinds", "kind="+name, paused, c), func(db queue.DB, _ *queue.AuditEntry) error {
			if paused {
				return pauser.PauseKinds(ctx, db, name)
			}
			return pauser.ResumeKinds(ctx, db, name)
		})
		if err != nil {
			return err
		}
		list = append(list, c)
	}
	return a.writeChanged("KIND", list)
}
