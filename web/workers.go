package web

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/errandhq/errand/queue"
)

// maxRuns is how many running jobs of each worker the page of workers shows.
const maxRuns = 10

// crew is what a backend knows of its workers.
type crew struct {
	Workers []queue.WorkerRecord
	Runs    map[string][]queue.Run // by worker
}

// readCrew reads the workers and what they run.
func (s source) readCrew(ctx context.Context) (c crew, err error) {
	if c.Workers, err = s.fleet.Workers(ctx); err != nil {
		return c, err
	}
	runs, err := s.fleet.Runs(ctx, maxRuns)
	c.Runs = make(map[string][]queue.Run)
	for _, run := range runs {
		c.Runs[run.Worker] = append(c.Runs[run.Worker], run)
	}
	return c, err
}

// workersPage is what the page of workers shows.
type workersPage struct {
	Workers []workerRow
	Others  []string // holders of running jobs that have not reported themselves
}

// workerRow is a worker in a table.
type workerRow struct {
	queue.WorkerRecord
	State  string // live, draining or vanished
	Serves string
	Runs   []queue.Run
}

func workers(q *request) error {
	if q.h.source.fleet == nil {
		return errNotFound
	}
	all := q.h.samples.crew.get(q.Context())
	var page workersPage
	reported := make(map[string]bool)
	for _, w := range all.Value.Workers {
		reported[w.Name] = true
		row := workerRow{WorkerRecord: w, State: "live", Serves: strings.Join(w.Queues, ", "), Runs: all.Value.Runs[w.Name]}
		switch {
		case w.Vanished:
			row.State = "vanished"
		case !w.DrainingAt.IsZero():
			row.State = "draining"
		}
		page.Workers = append(page.Workers, row)
	}
	for _, name := range slices.Sorted(maps.Keys(all.Value.Runs)) {
		if runs := all.Value.Runs[name]; !reported[name] {
			page.Others = append(page.Others, fmt.Sprintf("%s (%s)", name, atLeast(len(runs), int64(len(runs)/maxRuns), "job")))
		}
	}
	v := q.view("Workers", page)
	v.showAges(late("Workers", all))
	return q.render("workers", v)
}

// isAnyAlive reports whether a worker is known that lives, or nothing is known of the workers.
func isAnyAlive(c reading[crew]) bool {
	return c.At.IsZero() || slices.ContainsFunc(c.Value.Workers, func(w queue.WorkerRecord) bool { return !w.Vanished })
}

// workersNote is what the overview says of the workers: "" if nothing is known of them.
func workersNote(c reading[crew]) (text string, vanished int) {
	if c.At.IsZero() {
		return "", 0
	}
	live, busy, places := 0, 0, 0
	for _, w := range c.Value.Workers {
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
