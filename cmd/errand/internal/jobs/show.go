package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue/driver"
)

func (a app) showJobsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID...",
		Short: "Show each field of jobs, and their failures",
		Long: `jobs show shows a job with its last failures. With --payload it also shows
payload, headers, output and progress, as far as the database's role may read
these columns.`,
		Args: cobra.MinimumNArgs(1),
	}
	payload := cmd.Flags().Bool("payload", false, "with payload, headers, output and progress; an encrypted payload stays encrypted")
	cmd.RunE = a.Reading(func(ctx context.Context, d *dburl.Database, args []string) error {
		ids, err := ParseIDs(args)
		if err != nil {
			return err
		}
		return a.showJobs(ctx, d, ids, *payload)
	})
	return cmd
}

// ParseIDs returns the IDs that args name, each once. errand gives IDs from 1 on, but SQL may have
// written lower IDs.
func ParseIDs(args []string) (ids []int64, err error) {
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			return nil, cli.Usagef("%q: not the ID of a job, which is a number", arg)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (a app) showJobs(ctx context.Context, d *dburl.Database, ids []int64, payload bool) error {
	inspector, err := cli.Need[driver.Inspector](d)
	if err != nil {
		return err
	}
	var missing []string
	for i, id := range ids {
		r, ok, err := inspector.Job(ctx, id)
		if err != nil {
			return err
		}
		if !ok {
			missing = append(missing, strconv.FormatInt(id, 10))
			continue
		}
		job := NewJSON(r, payload)
		if keeper, ok := driver.As[driver.ResultKeeper](d.Queue); ok && payload {
			err := job.addResult(ctx, keeper)
			switch {
			case cli.IsDenied(err):
				a.Notef("job %d: output and progress are not shown: this user lacks a right, and SELECT on the table results is enough: %v", id, err)
			case err != nil:
				return err
			}
		}
		if i > 0 && a.IsTable() {
			fmt.Fprintln(a.Out)
		}
		if err := a.WriteOne(job, strings.TrimRight(job.text(), "\n")); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return cli.Nothingf("no job %s", strings.Join(missing, ", "))
	}
	return nil
}

func (j *JSON) addResult(ctx context.Context, keeper driver.ResultKeeper) error {
	result, ok, err := keeper.Result(ctx, j.ID)
	if err != nil || !ok {
		return err
	}
	if result.Output != nil {
		j.Output = &result.Output
	}
	if result.Progress != nil {
		j.Progress = &result.Progress
	}
	return nil
}

// text returns a line for each field that is set, and then the failures.
func (j *JSON) text() string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", name, plain.Line(value))
		}
	}
	line("ID", strconv.FormatInt(j.ID, 10))
	line("status", string(j.Status))
	line("queue", j.Queue)
	line("kind", j.Kind)
	line("attempts", AttemptText(j.Record))
	line("priority", strconv.Itoa(int(j.Priority)))
	line("group", j.Group)
	if j.Ordered {
		line("ordered", "yes")
	}
	line("key", j.Key)
	line("scheduled", cli.TimeText(j.ScheduledAt))
	line("created", cli.TimeText(j.CreatedAt))
	line("started", cli.TimeText(j.StartedAt))
	line("finished", cli.TimeText(j.FinishedAt))
	line("worker", j.Worker)
	line("lease ends", cli.TimeText(j.LeaseEnds))
	line("cancelled", cli.TimeText(j.CancelAt))
	if j.Redrives > 0 {
		line("redriven", fmt.Sprintf("%d times, last %s", j.Redrives, cli.TimeText(j.RedrivenAt)))
	}
	line("updated", cli.TimeText(j.UpdatedAt))
	line("last error", j.LastError)
	for _, raw := range []struct {
		name  string
		value *json.RawMessage
	}{{"payload", j.Payload}, {"output", j.Output}, {"progress", j.Progress}} {
		if raw.value != nil {
			line(raw.name, string(*raw.value))
		}
	}
	line("unreadable", j.Unreadable)
	line("headers", headerText(j.Headers))
	for _, f := range j.History {
		line("failure", fmt.Sprintf("%s attempt %d of worker %s, after %s: %s", cli.TimeText(f.At), f.Attempt, f.Worker, cli.AgeText(f.Took), f.Error))
		for stack := range strings.Lines(f.Stack) {
			line("", strings.TrimRight(stack, "\n"))
		}
	}
	return b.String()
}
