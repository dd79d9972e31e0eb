package doctor

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// fleet looks for workers that are not as they should be.
func fleet(ctx context.Context, d *doctor) (finding, error) {
	workers, held, err := d.workers(ctx)
	if err != nil {
		return finding{}, err
	}
	live := reader.Living(workers)
	var versions []string
	for _, w := range live {
		// A worker that stops may have a deploy's old version. Its report may be ten seconds late.
		if reader.IsDraining(w) && w.SeenAt.Sub(w.DrainingAt) > w.Grace+driver.ReportInterval {
			return finding{ops.Warn, fmt.Sprintf("worker %s has been stopping since %v, its Grace is %v", w.Name, w.DrainingAt.Format(time.RFC3339), plain.Duration(w.Grace)),
				"a handler ignores the end of its context: the worker's log has its stack. Kill the process; its jobs run again"}, nil
		}
		if w.ClaimError != "" {
			return finding{ops.Fail, fmt.Sprintf("the claims of worker %s fail: %s", w.Name, w.ClaimError), "mend what the error names"}, nil
		}
		if len(w.Refused) > 0 {
			return describeRefused(w), nil
		}
		if !reader.IsDraining(w) && !slices.Contains(versions, w.Version) {
			versions = append(versions, w.Version)
		}
	}
	if len(versions) > 1 {
		slices.Sort(versions)
		return finding{ops.Warn, "workers have different versions of errand: " + strings.Join(versions, ", "),
			"finish the deploy; CHANGELOG says what the versions share"}, nil
	}
	if _, names := held.Apart(workers); len(names) > 0 {
		return finding{ops.Warn, fmt.Sprintf("workers cannot report themselves (%s), because a transaction has locked rows of the table workers or stats: %s", words.Enumerate(names), held.Chain.Text()), held.Chain.Remedy()}, nil
	}
	if lost := lately(workers); len(lost) > 0 {
		return finding{ops.Warn, "workers that do not report themselves any more, and have not stopped in order: " + words.Enumerate(lost),
			"they were killed, hang, or are cut off: look at their processes and logs, and start them again if nothing has"}, nil
	}
	return finding{value: fmt.Sprintf("alive: %s; vanished in the last hour: %d", words.Count(len(live), "worker"), len(workers)-len(live))}, nil
}

// describeRefused returns the finding of a worker whose outcomes the backend refuses.
func describeRefused(w driver.WorkerRecord) finding {
	o := w.Refused[0]
	return finding{ops.Warn, fmt.Sprintf("worker %s cannot record the outcomes of %s whose handlers have returned; that of job %d has been refused for %v: %s",
		w.Name, words.Count(w.RefusedCount, "job"), o.ID, words.Short(o.Waited+w.Silent), o.Error), reader.AdviseRefused}
}

// workers returns the workers, and the transaction that keeps some of them from reporting
// themselves, nil if there is none or if that cannot be known. These are taken for live ones.
func (d *doctor) workers(ctx context.Context) ([]driver.WorkerRecord, *reader.HeldReports, error) {
	workers, err := d.Workers(ctx)
	if err != nil || d.Server == nil {
		return workers, nil, err
	}
	if !d.knowsHeld && slices.ContainsFunc(workers, reader.IsSilent) { // once for all checks: it takes a second or two
		look, cancel := context.WithTimeout(ctx, reader.CheckTimeout*3/4)
		defer cancel()
		d.knowsHeld = true
		if d.held, err = d.Server.HeldReports(look, workers); err != nil {
			d.held = nil
		}
	}
	workers, _ = d.held.Apart(workers)
	return workers, d.held, nil
}

// adviseUnreported is what to do about a worker that holds jobs and does not report itself.
const adviseUnreported = "the worker's log says why its reports fail: its handlers may hold every connection of its pool (docs/operations.md#pools), or its role may lack rights to the table workers (docs/roles.sql)"

// unreported returns the name of a worker that holds a job and has not reported itself, or "".
func (d *doctor) unreported(ctx context.Context, workers []driver.WorkerRecord) (name string, err error) {
	runs, err := d.Runs(ctx, 1)
	if err != nil {
		return "", err
	}
	for _, r := range runs {
		if !slices.ContainsFunc(workers, func(w driver.WorkerRecord) bool { return w.Name == r.Worker }) {
			return r.Worker, nil
		}
	}
	return "", nil
}

// lately describes the workers that have gone silent in the last few minutes, the latest first:
// one that hangs is not hidden by those that crashed before it.
func lately(workers []driver.WorkerRecord) (list []string) {
	const few = 5 * time.Minute
	latest := slices.SortedStableFunc(slices.Values(workers), func(a, b driver.WorkerRecord) int { return cmp.Compare(a.Silent, b.Silent) })
	for _, w := range latest {
		if reader.IsSilent(w) && w.Silent < few {
			list = append(list, fmt.Sprintf("%s (silent for %v)", w.Name, words.Short(w.Silent)))
		}
	}
	return list
}

// nobodyServes looks for due jobs that no live worker claims, because of their queue or kind.
func nobodyServes(ctx context.Context, d *doctor) (finding, error) {
	backlogs, err := d.Backlogs(ctx)
	if err != nil {
		return finding{}, err
	}
	workers, _, err := d.workers(ctx)
	if err != nil {
		return finding{}, err
	}
	var queues, kinds []string
	retired := "" // what cancels the jobs of the first kind
	live := reader.Living(workers)
	for _, b := range backlogs {
		if b.Age < reader.Soon {
			continue
		}
		serving := slices.DeleteFunc(slices.Clone(live), func(w driver.WorkerRecord) bool { return !slices.Contains(w.Queues, b.Queue) })
		if len(serving) == 0 {
			queues = append(queues, withLost(b.Queue, reader.Vanished(workers, b.Queue, ""), b.Queue, reader.QueuesOf(live)))
			continue
		}
		due, err := readDueKinds(ctx, d, b.Queue)
		if err != nil {
			return finding{}, err
		}
		for _, kind := range due {
			if !slices.ContainsFunc(serving, func(w driver.WorkerRecord) bool { return reader.Handles(w, kind) }) {
				retired = cmp.Or(retired, d.Command("jobs", "cancel", "--kind", kind, "--queue", b.Queue))
				kinds = append(kinds, withLost(kind+" in the queue "+b.Queue, reader.Vanished(workers, b.Queue, kind), kind, reader.KindsOf(serving)))
			}
		}
	}
	var parts, advice []string
	switch {
	case len(queues) == 0 && len(kinds) == 0:
		return finding{value: "each queue and kind with due jobs has a live worker"}, nil
	case len(live) == 0:
		holder, err := d.unreported(ctx, workers)
		if err != nil {
			return finding{}, err
		}
		parts, advice = []string{"no worker is alive; queues with due jobs: " + words.Enumerate(queues)}, []string{"start workers"}
		if holder != "" {
			parts[0] = fmt.Sprintf("no worker reports itself, but %s holds jobs; queues with due jobs: %s", holder, words.Enumerate(queues))
			advice[0] = adviseUnreported
		}
	case len(queues) > 0:
		parts = append(parts, "queues with due jobs that no live worker serves: "+words.Enumerate(queues))
		advice = append(advice, "start workers that have these queues in their Queues")
	}
	if len(kinds) > 0 {
		parts = append(parts, "kinds with due jobs that no live worker handles: "+words.Enumerate(kinds))
		advice = append(advice, "deploy workers whose Mux has these kinds; or, if they are retired: "+retired)
	}
	return finding{ops.Fail, strings.Join(parts, "; "), strings.Join(advice, "; ")}, nil
}

// withLost appends to text which worker has vanished, or else which of names are spelled like name.
func withLost(text string, lost []driver.WorkerRecord, name string, names []string) string {
	if len(lost) > 0 {
		return fmt.Sprintf("%s (worker %s, which would run them, vanished %v ago: start it again, unless others have replaced it)", text, lost[0].Name, words.Short(lost[0].Silent))
	}
	if near := reader.Nearest(name, names); near != "" {
		return fmt.Sprintf("%s (similar names: %s)", text, near)
	}
	return text
}

// readDueKinds returns kinds of jobs of the queue that have been due for a while.
func readDueKinds(ctx context.Context, d *doctor, name string) (kinds []string, err error) {
	if d.Server != nil {
		err = d.Server.Rows(ctx, "due_kinds", func(r *sql.Rows) error {
			var kind string
			var n int
			err := r.Scan(&kind, &n)
			kinds = append(kinds, kind)
			return err
		}, name, reader.Soon.Seconds())
		return kinds, err
	}
	if d.Inspector == nil {
		return nil, nil
	}
	page, _, err := d.Inspector.Jobs(ctx, queue.Filter{Queue: name, Status: queue.StatusPending, Bare: true})
	for _, r := range page {
		if time.Since(r.ScheduledAt) >= reader.Soon && !slices.Contains(kinds, r.Kind) {
			kinds = append(kinds, r.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds, err
}
