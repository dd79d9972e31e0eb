package watch

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

func (a app) statsCommand() *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count jobs, or how runs have ended",
		Long: `stats counts the jobs of each queue and status. A ~ marks an estimate: a number
above 10,000 may be one, and in a long table the number of completed jobs,
however few they are. With --since the command counts how the runs of
each queue and kind have ended, from so long ago until now, and shows how long
jobs ran and waited: half of the jobs at most p50, 99 of 100 jobs at most p99.
Runs of the last ten seconds may be missing.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().DurationVar(&since, "since", 0, "count the runs that ended in this time, in whole minutes, up to 48h")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case since > driver.StatsKept:
			return cli.Usagef("--since %s: the statistics of more than %s ago are not kept", plain.Duration(since), plain.Duration(driver.StatsKept))
		case since > 0:
			return a.Reading(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.runStats(ctx, d, since) })(cmd, args)
		}
		return a.Reading(a.stats)(cmd, args)
	}
	return cmd
}

// runStats shows how runs have ended. The minute in which the time begins counts as a whole.
func (a app) runStats(ctx context.Context, d *dburl.Database, since time.Duration) error {
	statistician, err := cli.Need[driver.Statistician](d)
	if err != nil {
		return err
	}
	from := time.Now().Add(-since).Truncate(time.Minute)
	list, err := statistician.Stats(ctx, queue.StatsFilter{From: from, ByQueue: true, ByKind: true, Times: true})
	if err != nil {
		return err
	}
	for i := range list {
		list[i].At = list[i].At.UTC()
	}
	return cli.Write(a.App, list, func() cli.Table {
		t := cli.Table{Columns: cli.Columns("QUEUE KIND DONE FAILED DEAD LOST RUN_P50 RUN_P99 WAIT_P50 WAIT_P99")}
		for _, s := range list {
			row := []string{s.Queue, s.Kind}
			for _, n := range []int64{s.Done, s.Failed, s.Dead, s.Lost} {
				row = append(row, strconv.FormatInt(n, 10))
			}
			for _, h := range []queue.Histogram{s.RunTimes, s.WaitTimes} {
				row = append(row, cli.AgeText(h.Quantile(0.5)), cli.AgeText(h.Quantile(0.99)))
			}
			t.Add(row...)
		}
		return t
	})
}

func (a app) stats(ctx context.Context, d *dburl.Database, _ []string) error {
	inspector, err := cli.Need[driver.Inspector](d)
	if err != nil {
		return err
	}
	counts, err := inspector.Counts(ctx)
	if err != nil {
		return err
	}
	return cli.Write(a.App, counts, func() cli.Table {
		t := cli.Table{Columns: cli.Columns("QUEUE STATUS JOBS")}
		for _, c := range counts {
			t.Add(c.Queue, string(c.Status), cli.EstimateMark(!c.Exact)+strconv.FormatInt(c.Jobs, 10))
		}
		return t
	})
}
