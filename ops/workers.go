package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/internal/spelling"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// readWorkers reads which workers live, if the backend knows.
func (f *facts) readWorkers(ctx context.Context) error {
	fleet, ok := driver.As[driver.Fleet](f.queue)
	if !ok {
		f.unknown = append(f.unknown, "which workers live: the backend does not know them")
		return nil
	}
	workers, err := fleet.Workers(ctx)
	if ok, err := f.tryOrNote(ctx, "which workers live", err); !ok {
		return err
	}
	f.workers, f.knowsWorkers = workers, true
	return f.excuse(ctx)
}

// excuse takes workers for live ones, and notes that this is not known, if they are silent because
// a transaction keeps their reports waiting.
func (f *facts) excuse(ctx context.Context) error {
	if f.server == nil {
		return nil
	}
	held, err := f.server.heldReports(ctx, f.workers)
	if ok, err := f.tryOrAsk(ctx, "which transactions keep reports of workers waiting", seeLocks, err); !ok {
		return err
	}
	all, names := held.apart(f.workers)
	if len(names) > 0 {
		f.workers, f.held = all, held
		f.unknown = append(f.unknown, held.text(names))
	}
	return nil
}

// isSilent reports whether a worker has missed a report, and nothing else explains that.
func (f *facts) isSilent(w driver.WorkerRecord) bool { return isSilent(w) && !f.held.explains(w) }

// isReporting reports whether a worker reports itself, or would if it could.
func (f *facts) isReporting(w driver.WorkerRecord) bool { return !w.Vanished && !f.isSilent(w) }

// unseen says what a list of workers leaves out, if there can be such workers.
func (f *facts) unseen() []string {
	if f.server == nil && f.file == nil {
		return nil
	}
	return []string{"workers written in SQL do not report themselves, and are not counted"}
}

// served returns the reason if no live worker serves the job's queue and handles its kind. It notes
// the workers that claim such jobs.
func (f *facts) served(ctx context.Context) ([]Reason, error) {
	if !f.knowsWorkers {
		return nil, nil
	}
	j := f.job
	live, serving := living(f.workers), f.serving()
	handling := slices.DeleteFunc(slices.Clone(serving), func(w driver.WorkerRecord) bool { return !handles(w, j.Kind) })
	f.claimers = slices.DeleteFunc(slices.Clone(handling), isDraining)
	isDue := !j.ScheduledAt.After(f.at)
	switch {
	case len(live) == 0 && !isDue: // the evidence of that reason says so
		return nil, nil
	case len(live) == 0:
		if reasons, err := f.unreported(ctx); err != nil || len(reasons) > 0 {
			return reasons, err
		}
		last, err := f.lastWorkers(ctx)
		if err != nil {
			return nil, err
		}
		elsewhere, err := f.elsewhere(ctx)
		return []Reason{{ID: "no-worker", Level: Fail, Verdict: f.noWorker(ctx), Evidence: slices.Concat(last, f.whoMayWork(), elsewhere, f.unseen()),
			Remedy: "start a worker; or if one runs, look to which database, schema or file it is connected, and whether its log has errors of reports"}}, err
	case len(serving) == 0:
		r := Reason{ID: "queue-not-served", Level: Fail, Verdict: "No worker serves the queue " + j.Queue + ".",
			Evidence: append(similar(fmt.Sprintf("live workers, all of other queues: %d", len(live)), j.Queue, queuesOf(live)), f.unseen()...),
			Remedy:   "start a worker with this queue in its Queues, or enqueue to a queue that is served"}
		return []Reason{r.without(vanished(f.workers, j.Queue, ""))}, nil
	case len(handling) == 0:
		r := Reason{ID: "kind-not-handled", Level: Fail, Verdict: "No worker of the queue " + j.Queue + " handles the kind " + j.Kind + ".",
			Evidence: append(similar(fmt.Sprintf("live workers of the queue, all for other kinds: %d", len(serving)), j.Kind, kindsOf(serving)), f.unseen()...),
			Remedy:   "deploy a worker whose Mux has the kind; or, if it is retired: " + f.command("jobs", "cancel", "--kind", j.Kind, "--queue", j.Queue)}
		return []Reason{r.without(vanished(f.workers, j.Queue, j.Kind))}, nil
	case len(f.claimers) == 0 && isDue:
		return []Reason{{ID: "workers-draining", Level: Warn, Verdict: fmt.Sprintf("All workers that would run job %d are stopping.", j.ID),
			Evidence: describe(handling), Remedy: "wait for the new workers of the deploy, or start one"}}, nil
	}
	return nil, nil
}

// serving returns the live workers of the job's queue.
func (f *facts) serving() []driver.WorkerRecord {
	return slices.DeleteFunc(living(f.workers), func(w driver.WorkerRecord) bool { return !slices.Contains(w.Queues, f.job.Queue) })
}

// late is how long after its last claim a worker with room is suspected to hang in the next one.
// Its Poll comes on top.
const late = 30 * time.Second

// claiming returns why the workers that should claim the job do not.
func (f *facts) claiming(ctx context.Context) ([]Reason, error) {
	j := f.job
	workers := slices.DeleteFunc(slices.Clone(f.claimers), f.isSilent)
	silent := f.silent()
	if len(workers) == 0 {
		return silent, nil
	}
	runs, err := f.runsOf(ctx, workers)
	if err != nil {
		return nil, err
	}
	failing := slices.DeleteFunc(slices.Clone(workers), func(w driver.WorkerRecord) bool { return w.ClaimError == "" })
	f.free = slices.DeleteFunc(slices.Clone(workers), func(w driver.WorkerRecord) bool { return w.ClaimError != "" || w.Busy >= w.Concurrency })
	hanging := slices.DeleteFunc(slices.Clone(f.free), func(w driver.WorkerRecord) bool {
		return slices.Contains(f.pauses, j.Kind) || w.ClaimedAt.IsZero() || w.SeenAt.Sub(w.ClaimedAt) < late+w.Poll
	})
	starved, err := f.starved(ctx, workers)
	switch {
	case err != nil:
		return nil, err
	case len(hanging) > 0 && len(hanging) == len(f.free):
		w := hanging[0]
		return slices.Concat(silent, []Reason{{ID: "claims-hang", Level: Warn, Verdict: fmt.Sprintf("No worker that would run job %d has claimed for a while, although it has room.", j.ID),
			Evidence: append(describe(hanging), fmt.Sprintf("the last claim of %s was %v before its report", w.Name, short(w.SeenAt.Sub(w.ClaimedAt)))),
			Remedy:   "look whether its statements wait for a lock or a connection: " + f.command("doctor") + ", and the worker's log"}}, starved), nil
	case len(f.free) > 0:
		return starved, nil
	case len(failing) > 0:
		var evidence []string
		for _, w := range failing[:min(len(failing), 3)] {
			evidence = append(evidence, fmt.Sprintf("worker %s: %s", w.Name, w.ClaimError))
		}
		return append([]Reason{{ID: "claims-fail", Level: Fail, Verdict: fmt.Sprintf("The claims of %s that would run job %d fail.", count(len(failing), "worker"), j.ID),
			Evidence: evidence, Remedy: "mend what the error names; " + f.command("doctor") + " looks at the database"}}, silent...), nil
	}
	who := fmt.Sprintf("All %d workers that would run job %d are busy.", len(workers), j.ID)
	if len(workers) == 1 {
		who = fmt.Sprintf("The only worker that would run job %d is busy.", j.ID)
	}
	longest, look, err := f.longestRuns(ctx)
	if err != nil {
		return nil, err
	}
	busy := Reason{ID: "workers-busy", Level: Warn, Verdict: who, Evidence: append(describe(workers), longest...),
		Remedy: "wait; start more workers; raise Concurrency; or give slow kinds a Timeout or a queue of their own" + look}
	holds := func(r driver.RunningJob) bool { return r.Queue == j.Queue }
	if len(starved) > 0 && !slices.ContainsFunc(runs, holds) { // they are busy with that other queue
		return slices.Concat(silent, starved, []Reason{busy}), nil
	}
	return slices.Concat(silent, []Reason{busy}, starved), nil
}

// starved returns the queue that all of the workers serve before the job's queue, if they would
// claim a job of it now that has been due for a while.
func (f *facts) starved(ctx context.Context, workers []driver.WorkerRecord) ([]Reason, error) {
	j := f.job
	backlogger, ok := driver.As[driver.Backlogger](f.queue)
	servesFirst := func(w driver.WorkerRecord) bool { return w.Queues[0] == j.Queue }
	if !ok || f.at.Sub(j.ScheduledAt) < soon || slices.ContainsFunc(workers, servesFirst) {
		return nil, nil
	}
	backlogs, err := backlogger.Backlogs(ctx)
	if ok, err := f.tryOrNote(ctx, "which queues have due jobs", err); !ok {
		return nil, err
	}
	for _, b := range backlogs {
		isBehind := func(w driver.WorkerRecord) bool {
			other := slices.Index(w.Queues, b.Queue)
			return other >= 0 && other < slices.Index(w.Queues, j.Queue)
		}
		if b.Queue == j.Queue || b.Age < soon || slices.ContainsFunc(workers, func(w driver.WorkerRecord) bool { return !isBehind(w) }) {
			continue
		}
		if isHeldUp, err := f.isHeldUp(ctx, b.Queue); err != nil {
			return nil, err
		} else if isHeldUp {
			continue
		}
		c, ok, err := f.claimable(ctx, b.Queue, nil, workers)
		if err != nil {
			return nil, err
		}
		if ok && c.longest >= soon {
			return []Reason{{ID: "starved", Level: Warn, Verdict: fmt.Sprintf("Before the queue %s its workers serve the queue %s, which has due jobs.", j.Queue, b.Queue),
				Evidence: slices.Concat(describe(workers),
					[]string{fmt.Sprintf("%s of the queue %s, the first has been due for %v", count(c.jobs, "due job"), b.Queue, short(c.longest))}, c.others,
					[]string{"workers do not report Weights: with Weights they take turns"}),
				Remedy: "give the queue a worker of its own, or Weights (docs/priorities.md)"}}, nil
		}
	}
	return nil, nil
}

// worker returns the record of a worker, if it has reported itself.
func (f *facts) worker(name string) (driver.WorkerRecord, bool) {
	i := slices.IndexFunc(f.workers, func(w driver.WorkerRecord) bool { return w.Name == name })
	if i < 0 {
		return driver.WorkerRecord{}, false
	}
	return f.workers[i], true
}

// overdue is how long after its last report a worker is late with the next one.
const overdue = driver.ReportInterval + 3*time.Second

// isSilent reports whether a worker has missed a report, but does not count as vanished yet.
func isSilent(w driver.WorkerRecord) bool { return w.Silent > overdue }

// claims reports whether the last claim of a worker that reports itself has succeeded.
func claims(w driver.WorkerRecord) bool { return !isSilent(w) && w.ClaimError == "" }

func living(workers []driver.WorkerRecord) []driver.WorkerRecord {
	return slices.DeleteFunc(slices.Clone(workers), func(w driver.WorkerRecord) bool { return w.Vanished })
}

func isDraining(w driver.WorkerRecord) bool { return !w.DrainingAt.IsZero() }

// handles reports whether the worker claims jobs of the kind.
func handles(w driver.WorkerRecord, kind string) bool {
	return len(w.Kinds) == 0 || slices.Contains(w.Kinds, kind)
}

func queuesOf(workers []driver.WorkerRecord) (names []string) {
	for _, w := range workers {
		names = append(names, w.Queues...)
	}
	return names
}

func kindsOf(workers []driver.WorkerRecord) (names []string) {
	for _, w := range workers {
		names = append(names, w.Kinds...)
	}
	return names
}

// similar returns a fact, and which of names are spelled like name, or else which names there are.
func similar(fact, name string, names []string) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	if near := nearest(name, names); near != "" {
		return []string{fact, "similar names: " + near}
	}
	return []string{fmt.Sprintf("%s (%s)", fact, enumerate(names))}
}

// nearest returns which of names are spelled like name, "" for none.
func nearest(name string, names []string) string {
	slices.Sort(names)
	return strings.Join(spelling.Nearest(name, slices.Compact(names)), ", ")
}

// describe says in a line each what up to three workers do.
func describe(workers []driver.WorkerRecord) (lines []string) {
	for _, w := range workers[:min(len(workers), 3)] {
		line := fmt.Sprintf("worker %s: %d of %d busy", w.Name, w.Busy, w.Concurrency)
		if isDraining(w) {
			line += ", stopping since " + w.DrainingAt.Format(time.RFC3339)
		}
		lines = append(lines, fmt.Sprintf("%s, reported itself %v ago", line, short(w.Silent)))
	}
	return append(lines, more(len(workers)-3)...)
}

// lastWorkers says what has become of the workers, if none is alive. The record of a worker that
// stops in order is removed at once, so the statistics of the jobs say when one has last worked.
func (f *facts) lastWorkers(ctx context.Context) ([]string, error) {
	gone, last := 0, driver.WorkerRecord{}
	for _, w := range f.workers {
		if w.Vanished {
			gone++
			if w.SeenAt.After(last.SeenAt) {
				last = w
			}
		}
	}
	became := []string{"all workers have stopped in order, or none has reported itself in the last hour"}
	if gone > 0 {
		became = []string{
			fmt.Sprintf("%s vanished without stopping in order. The last was %s, %v ago", count(gone, "worker"), last.Name, short(last.Silent)),
			fmt.Sprintf("if its process %d on host %s still runs, it hangs, is cut off, or its handlers hold all connections of its pool", last.PID, last.Host),
		}
	}
	statistician, ok := driver.As[driver.Statistician](f.queue)
	if !ok {
		return became, nil
	}
	list, err := statistician.Stats(ctx, queue.StatsFilter{From: f.at.Add(-driver.StatsKept), Step: time.Minute})
	if ok, err := f.tryOrNote(ctx, "when a worker has last run a job", err); !ok {
		return became, err
	}
	if len(list) == 0 {
		return append(became, fmt.Sprintf("no worker has ended a job in the last %s", plain.Duration(driver.StatsKept))), nil
	}
	at := list[len(list)-1].At
	return append(became, fmt.Sprintf("a worker last ended a job in the minute of %s", at.Format(time.RFC3339))), nil
}
