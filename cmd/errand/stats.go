package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

func (a *app) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Count the jobs of each queue and status",
		Long:  `stats counts jobs. A ~ marks an estimate, which numbers above 10,000 may be.`,
		Args:  cobra.NoArgs,
		RunE:  a.reading(a.stats),
	}
}

func (a *app) stats(ctx context.Context, d *dburl.Database, _ []string) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	inspector, err := need[queue.Inspector](d)
	if err != nil {
		return err
	}
	counts, err := inspector.Counts(ctx)
	if err != nil {
		return err
	}
	return write(a, counts, func() table {
		t := table{columns: columns("QUEUE STATUS JOBS")}
		for _, c := range counts {
			t.add(c.Queue, string(c.Status), estimateMark(!c.Exact)+strconv.FormatInt(c.Jobs, 10))
		}
		return t
	})
}
