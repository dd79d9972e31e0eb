package workers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue/driver"
)

// Worker is a worker and the jobs that it holds.
type Worker struct {
	driver.WorkerRecord
	Runs []driver.RunningJob `json:"runs"`
}

func (a app) workersCommand() *cobra.Command {
	most := 5
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List the workers, and the jobs that each holds",
		Long: `workers lists the workers that have reported themselves and have not stopped,
with the jobs that each has claimed first. STATUS is

  live
  failing: the worker's last claim has failed, and -o wide has the error
  refused: the database refuses outcomes of jobs whose handlers have returned.
    The worker retries, and -o wide has how many, and the error of the first
  draining: the worker claims no more jobs, and ends when its jobs have ended
  vanished: the worker has not reported itself for more than 35 s
  unknown: the worker holds jobs and has no report: it has stopped and could not
    record their outcomes, or it reports nothing, such as a worker in SQL`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&most, "jobs", most, "how many jobs of each worker to show, 1 to 1000")
	cmd.RunE = a.Reading(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.workers(ctx, d, most) })
	return cmd
}

func (a app) workers(ctx context.Context, d *dburl.Database, most int) error {
	list, err := List(ctx, d, most)
	if err != nil {
		return err
	}
	return cli.Write(a.App, list, func() cli.Table { return Table(list) })
}

// Table returns a line for each worker.
func Table(list []Worker) cli.Table {
	t := cli.Table{Columns: cli.Columns("WORKER STATUS BUSY SEEN QUEUES KINDS RUNS | HOST PID VERSION STARTED CLAIMED LISTENS CLAIM_ERROR REFUSED")}
	for _, w := range list {
		if w.SeenAt.IsZero() { // nothing is known of it but what it holds
			t.Add(w.Name, w.state(), "", "", "", "", w.runText(), "", "", "", "", "", "", "", "")
			continue
		}
		t.Add(w.Name, w.state(), fmt.Sprintf("%d/%d", w.Busy, w.Concurrency), cli.AgeText(w.Silent)+" ago", w.queueText(),
			w.kindText(), w.runText(), w.Host, strconv.Itoa(w.PID), w.Version, cli.TimeText(w.StartedAt), cli.TimeText(w.ClaimedAt), cli.YesNo(w.Listens), w.ClaimError, w.refusedText())
	}
	return t
}

// queueText returns the worker's queues, and how many slots are busy of those that have a number.
func (w Worker) queueText() string {
	texts := slices.Clone(w.Queues)
	for _, s := range w.Slots {
		if i := slices.Index(texts, s.Queue); i >= 0 {
			texts[i] = fmt.Sprintf("%s(%d/%d)", s.Queue, s.Busy, s.Slots)
		}
	}
	return strings.Join(texts, ",")
}

// List returns the workers with up to most of the jobs of each, by name, then those that have
// vanished, the latest first, and then the holders that have not reported themselves.
func List(ctx context.Context, d *dburl.Database, most int) ([]Worker, error) {
	fleet, err := cli.Need[driver.Fleet](d)
	if err != nil {
		return nil, err
	}
	records, err := fleet.Workers(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(records, driver.WorkerRecord.Compare)
	runs, err := fleet.Runs(ctx, most)
	if err != nil {
		return nil, err
	}
	list := []Worker{}
	index := make(map[string]int)
	for _, r := range records {
		r.StartedAt, r.ClaimedAt, r.DrainingAt, r.SeenAt = r.StartedAt.UTC(), r.ClaimedAt.UTC(), r.DrainingAt.UTC(), r.SeenAt.UTC()
		index[r.Name] = len(list)
		list = append(list, Worker{WorkerRecord: r, Runs: []driver.RunningJob{}})
	}
	for _, r := range runs {
		r.Since = r.Since.UTC()
		i, ok := index[r.Worker]
		if !ok {
			i = len(list)
			index[r.Worker] = i
			list = append(list, Worker{WorkerRecord: driver.WorkerRecord{WorkerInfo: driver.WorkerInfo{Name: r.Worker}}})
		}
		list[i].Runs = append(list[i].Runs, r)
	}
	return list, nil
}

func (w Worker) state() string {
	switch {
	case w.SeenAt.IsZero():
		return "unknown"
	case w.Vanished:
		return "vanished"
	case !w.DrainingAt.IsZero():
		return "draining"
	case w.ClaimError != "":
		return "failing"
	case len(w.Refused) > 0:
		return "refused"
	}
	return "live"
}

func (w Worker) refusedText() string {
	if len(w.Refused) == 0 {
		return ""
	}
	return fmt.Sprintf("%d: %s", w.RefusedCount, w.Refused[0].Error)
}

func (w Worker) kindText() string {
	if len(w.Kinds) == 0 {
		return "any"
	}
	return strings.Join(w.Kinds, ",")
}

func (w Worker) runText() string {
	var parts []string
	for _, r := range w.Runs {
		parts = append(parts, fmt.Sprintf("%d %s for %s", r.ID, r.Kind, cli.AgeText(r.Took)))
	}
	return strings.Join(parts, ", ")
}
