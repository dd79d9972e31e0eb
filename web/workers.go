package web

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/errandhq/errand/queue/driver"
)

// maxRuns is how many running jobs of each worker the page of workers shows.
const maxRuns = 10

// readRuns reads what the workers run, by worker.
func (s source) readRuns(ctx context.Context) (map[string][]driver.RunningJob, error) {
	runs, err := s.fleet.Runs(ctx, maxRuns)
	byWorker := make(map[string][]driver.RunningJob)
	for _, run := range runs {
		byWorker[run.Worker] = append(byWorker[run.Worker], run)
	}
	return byWorker, err
}

// workersPage is what the page of workers shows.
type workersPage struct {
	Workers []workerRow
	Others  []string // holders of running jobs that have not reported themselves
}

// workerRow is a worker in a table.
type workerRow struct {
	driver.WorkerRecord
	State  string // live, draining or vanished
	Serves string
	Runs   []driver.RunningJob
}

func workers(q *request) error {
	if q.h.source.fleet == nil {
		return errNotFound
	}
	s, ctx := q.h.samples, q.Context()
	begin(s.workers, s.runs)
	all, runs := s.workers.get(ctx), s.runs.get(ctx)
	var page workersPage
	reported := make(map[string]bool)
	for _, w := range slices.SortedStableFunc(slices.Values(all.Value), driver.WorkerRecord.Compare) {
		reported[w.Name] = true
		row := workerRow{WorkerRecord: w, State: "live", Serves: strings.Join(w.Queues, ", "), Runs: runs.Value[w.Name]}
		switch {
		case w.Vanished:
			row.State = "vanished"
		case !w.DrainingAt.IsZero():
			row.State = "draining"
		}
		page.Workers = append(page.Workers, row)
	}
	for _, name := range slices.Sorted(maps.Keys(runs.Value)) {
		if runs := runs.Value[name]; !reported[name] && !all.At.IsZero() {
			page.Others = append(page.Others, fmt.Sprintf("%s (%s)", name, atLeast(len(runs), int64(len(runs)/maxRuns), "job")))
		}
	}
	v := q.view("Workers", page)
	v.showAges(late("Workers", all), late("Running jobs", runs))
	return q.render("workers", v)
}

// isServed reports whether a live worker serves the queue.
func isServed(workers []driver.WorkerRecord, name string) bool {
	return slices.ContainsFunc(workers, func(w driver.WorkerRecord) bool { return !w.Vanished && slices.Contains(w.Queues, name) })
}

// workersNote is what the overview says of the workers: "" if nothing is known of them.
func workersNote(c reading[[]driver.WorkerRecord]) (text string, vanished int) {
	if c.At.IsZero() {
		return "", 0
	}
	live, busy, places := 0, 0, 0
	for _, w := range c.Value {
		if w.Vanished {
			vanished++
			continue
		}
		live++
		busy += w.Busy
		places += w.Concurrency
	}
	if live == 0 {
		return "No worker is alive", vanished
	}
	return fmt.Sprintf("%s, %s of %s places busy", plural(int64(live), "worker"), number(busy), number(places)), vanished
}
