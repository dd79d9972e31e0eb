package ops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/spelling"
	"github.com/errandhq/errand/queue"
)

// readWorkers reads which workers live, if the backend knows.
func (f *facts) readWorkers(ctx context.Context) error {
	fleet, ok := queue.As[queue.Fleet](f.queue)
	if !ok {
		f.unknown = append(f.unknown, "which workers live: the backend does not know them")
		return nil
	}
	workers, err := fleet.Workers(ctx)
	if ok, err := f.tryOrNote(ctx, "which workers live", err); !ok {
		return err
	}
	f.workers, f.knowsWorkers = workers, true
	return nil
}

// unseen is what a list of workers leaves out.
const unseen = "workers made of SQL statements report nothing, and are not counted"

// served returns why no worker claims a due job.
func (f *facts) served(ctx context.Context) ([]Reason, error) {
	if !f.knowsWorkers {
		return nil, nil
	}
	j := f.job
	live := living(f.workers)
	serving := slices.DeleteFunc(slices.Clone(live), func(w queue.WorkerRecord) bool { return !slices.Contains(w.Queues, j.Queue) })
	handling := slices.DeleteFunc(slices.Clone(serving), func(w queue.WorkerRecord) bool { return !handles(w, j.Kind) })
	claiming := slices.DeleteFunc(slices.Clone(handling), isDraining)
	switch {
	case len(live) == 0:
		return []Reason{{ID: "no-worker", Level: Fail, Verdict: "No worker is alive.", Evidence: append(vanished(f.workers), unseen), Remedy: "start a worker"}}, nil
	case len(serving) == 0:
		return []Reason{{ID: "queue-not-served", Level: Fail, Verdict: "No worker serves the queue " + j.Queue + ".",
			Evidence: similar(fmt.Sprintf("%d workers are alive", len(live)), j.Queue, queuesOf(live)),
			Remedy:   "start a worker with this queue in its Queues, or enqueue to one that is served"}}, nil
	case len(handling) == 0:
		return []Reason{{ID: "kind-not-handled", Level: Fail, Verdict: "No worker of the queue " + j.Queue + " handles the kind " + j.Kind + ".",
			Evidence: similar(fmt.Sprintf("%d workers serve the queue", len(serving)), j.Kind, kindsOf(serving)),
			Remedy:   "deploy a worker whose Mux has the kind"}}, nil
	case len(claiming) == 0:
		return []Reason{{ID: "workers-draining", Level: Warn, Verdict: fmt.Sprintf("All workers that would run job %d are stopping.", j.ID),
			Evidence: describe(handling), Remedy: "wait for the new ones of the deploy, or start one"}}, nil
	}
	return f.claiming(ctx, claiming)
}

// claiming returns why workers that should claim the job do not.
func (f *facts) claiming(ctx context.Context, workers []queue.WorkerRecord) ([]Reason, error) {
	j := f.job
	failing := slices.DeleteFunc(slices.Clone(workers), func(w queue.WorkerRecord) bool { return w.ClaimError == "" })
	free := slices.DeleteFunc(slices.Clone(workers), func(w queue.WorkerRecord) bool { return w.ClaimError != "" || w.Busy >= w.Concurrency })
	starved, err := f.starved(ctx, workers)
	switch {
	case err != nil:
		return nil, err
	case len(free) > 0:
		f.idle = describe(free)
		return starved, nil
	case len(failing) > 0:
		var evidence []string
		for _, w := range failing[:min(len(failing), 3)] {
			evidence = append(evidence, fmt.Sprintf("worker %s: %s", w.Name, w.ClaimError))
		}
		return []Reason{{ID: "claims-fail", Level: Fail, Verdict: fmt.Sprintf("The claims of %d workers that would run job %d fail.", len(failing), j.ID),
			Evidence: evidence, Remedy: "mend what the error names; " + command("doctor") + " looks at the database"}}, nil
	}
	longest, err := f.longestRuns(ctx, workers)
	busy := Reason{ID: "workers-busy", Level: Warn, Verdict: fmt.Sprintf("All %d workers that would run job %d are busy.", len(workers), j.ID),
		Evidence: append(describe(workers), longest...), Remedy: "wait; start more workers; raise Concurrency; or give slow kinds a Timeout or a queue of their own"}
	return append([]Reason{busy}, starved...), err
}

// starved returns the queue that the workers serve before the job's queue, if all of them do, and
// it has had due jobs for a while.
func (f *facts) starved(ctx context.Context, workers []queue.WorkerRecord) ([]Reason, error) {
	j := f.job
	backlogger, ok := queue.As[queue.Backlogger](f.queue)
	if !ok || f.at.Sub(j.ScheduledAt) < soon {
		return nil, nil
	}
	backlogs, err := backlogger.Backlogs(ctx)
	if ok, err := f.tryOrNote(ctx, "which queues have due jobs", err); !ok {
		return nil, err
	}
	for _, b := range backlogs {
		isBehind := func(w queue.WorkerRecord) bool {
			other := slices.Index(w.Queues, b.Queue)
			return other >= 0 && other < slices.Index(w.Queues, j.Queue)
		}
		if b.Queue != j.Queue && b.Age >= soon && !slices.ContainsFunc(workers, func(w queue.WorkerRecord) bool { return !isBehind(w) }) {
			return []Reason{{ID: "starved", Level: Warn, Verdict: fmt.Sprintf("The workers of the queue %s serve the queue %s first, which has due jobs.", j.Queue, b.Queue),
				Evidence: append(describe(workers), fmt.Sprintf("a job of the queue %s has been due for %v", b.Queue, short(b.Age)),
					"workers do not report Weights: with these they take turns"),
				Remedy: "give the queue a worker of its own, or Weights (docs/priorities.md)"}}, nil
		}
	}
	return nil, nil
}

// longestRuns returns what the workers have been running for longest.
func (f *facts) longestRuns(ctx context.Context, workers []queue.WorkerRecord) (evidence []string, err error) {
	fleet, _ := queue.As[queue.Fleet](f.queue)
	var names []string
	for _, w := range workers {
		names = append(names, w.Name)
	}
	runs, err := fleet.Runs(ctx, 3, names...)
	if ok, err := f.tryOrNote(ctx, "what the workers run", err); !ok {
		return nil, err
	}
	slices.SortFunc(runs, func(a, b queue.Run) int { return cmp.Compare(b.Took, a.Took) })
	for _, r := range runs[:min(len(runs), 3)] {
		evidence = append(evidence, fmt.Sprintf("job %d of the kind %s runs for %v", r.ID, r.Kind, short(r.Took)))
	}
	return evidence, nil
}

// worker returns the record of a worker, if it has reported itself.
func (f *facts) worker(name string) (queue.WorkerRecord, bool) {
	i := slices.IndexFunc(f.workers, func(w queue.WorkerRecord) bool { return w.Name == name })
	if i < 0 {
		return queue.WorkerRecord{}, false
	}
	return f.workers[i], true
}

func living(workers []queue.WorkerRecord) []queue.WorkerRecord {
	return slices.DeleteFunc(slices.Clone(workers), func(w queue.WorkerRecord) bool { return w.Vanished })
}

func isDraining(w queue.WorkerRecord) bool { return !w.DrainingAt.IsZero() }

// handles reports whether the worker claims jobs of the kind.
func handles(w queue.WorkerRecord, kind string) bool {
	return len(w.Kinds) == 0 || slices.Contains(w.Kinds, kind)
}

func queuesOf(workers []queue.WorkerRecord) (names []string) {
	for _, w := range workers {
		names = append(names, w.Queues...)
	}
	return names
}

func kindsOf(workers []queue.WorkerRecord) (names []string) {
	for _, w := range workers {
		names = append(names, w.Kinds...)
	}
	return names
}

// similar returns a fact, and which of names are spelled like name.
func similar(fact, name string, names []string) []string {
	slices.Sort(names)
	if near := spelling.Nearest(name, slices.Compact(names)); len(near) > 0 {
		return []string{fact, "similar names: " + strings.Join(near, ", ")}
	}
	return []string{fact}
}

// describe says in a line each what up to three workers do.
func describe(workers []queue.WorkerRecord) (lines []string) {
	for _, w := range workers[:min(len(workers), 3)] {
		line := fmt.Sprintf("worker %s: %d of %d busy", w.Name, w.Busy, w.Concurrency)
		if isDraining(w) {
			line += ", stopping since " + w.DrainingAt.Format(time.RFC3339)
		}
		lines = append(lines, fmt.Sprintf("%s, reported itself %v ago", line, short(w.Silent)))
	}
	if n := len(workers) - 3; n > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", n))
	}
	return lines
}

// vanished says how many workers have vanished.
func vanished(workers []queue.WorkerRecord) (lines []string) {
	n, last := 0, queue.WorkerRecord{}
	for _, w := range workers {
		if w.Vanished {
			n++
			if w.SeenAt.After(last.SeenAt) {
				last = w
			}
		}
	}
	if n == 0 {
		return []string{"no worker has reported itself in the last hour"}
	}
	return []string{fmt.Sprintf("%d workers have vanished, %s as the last, %v ago", n, last.Name, short(last.Silent))}
}
