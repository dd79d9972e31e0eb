package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// readWorkers reads which workers live, if the backend knows.
func readWorkers(ctx context.Context, q *inquiry) error {
	if q.knowsWorkers {
		return nil
	}
	workers, err := q.Workers(ctx)
	if note := "which workers live: the backend does not know them"; errors.Is(err, reader.ErrNotTold) && !slices.Contains(q.unknown, note) {
		q.unknown = append(q.unknown, note)
	}
	if ok, err := q.tryOrNote(ctx, "which workers live", err); !ok {
		return err
	}
	q.workers, q.knowsWorkers = workers, true
	return excuseSilent(ctx, q)
}

// excuseSilent takes workers for live ones, and notes that this is not known, if they are silent
// because a transaction keeps their reports waiting.
func excuseSilent(ctx context.Context, q *inquiry) error {
	if q.Server == nil {
		return nil
	}
	held, err := q.Server.HeldReports(ctx, q.workers)
	if ok, err := q.tryOrAsk(ctx, "which transactions keep reports of workers waiting", seeLocks, err); !ok {
		return err
	}
	all, names := held.Apart(q.workers)
	if len(names) > 0 {
		q.workers, q.held = all, held
		q.unknown = append(q.unknown, held.Text(names))
	}
	return nil
}

// reader.IsSilent reports whether a worker has missed a report, and nothing else explains that.
func (q *inquiry) isSilent(w driver.WorkerRecord) bool {
	return reader.IsSilent(w) && !q.held.Explains(w)
}

// isReporting reports whether a worker reports itself, or would if it could.
func (q *inquiry) isReporting(w driver.WorkerRecord) bool { return !w.Vanished && !q.isSilent(w) }

// describeUnseen says what a list of workers leaves out, if there can be such workers.
func describeUnseen(q *inquiry) []string {
	if q.Server == nil && q.File == nil {
		return nil
	}
	return []string{"workers written in SQL do not report themselves, and are not counted"}
}

// whyNotServed returns the reason if no live worker serves the job's queue and handles its kind. It
// notes the workers that claim such jobs.
func whyNotServed(ctx context.Context, q *inquiry) ([]Reason, error) {
	if !q.knowsWorkers {
		return nil, nil
	}
	j := q.job
	live, serving := reader.Living(q.workers), listServing(q)
	handling := slices.DeleteFunc(slices.Clone(serving), func(w driver.WorkerRecord) bool { return !reader.Handles(w, j.Kind) })
	q.claimers = slices.DeleteFunc(slices.Clone(handling), reader.IsDraining)
	isDue := !j.ScheduledAt.After(q.at)
	switch {
	case len(live) == 0 && !isDue: // the evidence of that reason says so
		return nil, nil
	case len(live) == 0:
		if reasons, err := whyUnreported(ctx, q); err != nil || len(reasons) > 0 {
			return reasons, err
		}
		last, err := describeLastWorkers(ctx, q)
		if err != nil {
			return nil, err
		}
		elsewhere, err := findElsewhere(ctx, q)
		return []Reason{{ID: "no-worker", Level: ops.Fail, Verdict: describeNoWorker(ctx, q), Evidence: slices.Concat(last, describeWhoMayWork(q), elsewhere, describeUnseen(q)),
			Remedy: "start a worker; or if one runs, look to which database, schema or file it is connected, and whether its log has errors of reports"}}, err
	case len(serving) == 0:
		r := Reason{ID: "queue-not-served", Level: ops.Fail, Verdict: "No worker serves the queue " + j.Queue + ".",
			Evidence: append(similar(fmt.Sprintf("live workers, all of other queues: %d", len(live)), j.Queue, reader.QueuesOf(live)), describeUnseen(q)...),
			Remedy:   "start a worker with this queue in its Queues, or enqueue to a queue that is served"}
		return []Reason{withoutVanished(r, reader.Vanished(q.workers, j.Queue, ""))}, nil
	case len(handling) == 0:
		r := Reason{ID: "kind-not-handled", Level: ops.Fail, Verdict: "No worker of the queue " + j.Queue + " handles the kind " + j.Kind + ".",
			Evidence: append(similar(fmt.Sprintf("live workers of the queue, all for other kinds: %d", len(serving)), j.Kind, reader.KindsOf(serving)), describeUnseen(q)...),
			Remedy:   "deploy a worker whose Mux has the kind; or, if it is retired: " + q.Command("jobs", "cancel", "--kind", j.Kind, "--queue", j.Queue)}
		return []Reason{withoutVanished(r, reader.Vanished(q.workers, j.Queue, j.Kind))}, nil
	case len(q.claimers) == 0 && isDue:
		return []Reason{{ID: "workers-draining", Level: ops.Warn, Verdict: fmt.Sprintf("All workers that would run job %d are stopping.", j.ID),
			Evidence: describe(handling), Remedy: "wait for the new workers of the deploy, or start one"}}, nil
	}
	return nil, nil
}

// listServing returns the live workers of the job's queue.
func listServing(q *inquiry) []driver.WorkerRecord {
	return slices.DeleteFunc(reader.Living(q.workers), func(w driver.WorkerRecord) bool { return !slices.Contains(w.Queues, q.job.Queue) })
}

// late is how long after its last claim a worker with room is suspected to hang in the next one.
// Its Poll comes on top.
const late = 30 * time.Second

// whyNotClaiming returns why the workers that should claim the job do not.
func whyNotClaiming(ctx context.Context, q *inquiry) ([]Reason, error) {
	j := q.job
	workers := slices.DeleteFunc(slices.Clone(q.claimers), q.isSilent)
	silent := whySilent(q)
	if len(workers) == 0 {
		return silent, nil
	}
	runs, err := readRuns(ctx, q, workers)
	if err != nil {
		return nil, err
	}
	failing := slices.DeleteFunc(slices.Clone(workers), func(w driver.WorkerRecord) bool { return w.ClaimError == "" })
	q.free = slices.DeleteFunc(slices.Clone(workers), func(w driver.WorkerRecord) bool { return w.ClaimError != "" || w.Busy >= w.Concurrency })
	hanging := slices.DeleteFunc(slices.Clone(q.free), func(w driver.WorkerRecord) bool {
		return slices.Contains(q.pauses, j.Kind) || w.ClaimedAt.IsZero() || w.SeenAt.Sub(w.ClaimedAt) < late+w.Poll
	})
	starved, err := whyStarved(ctx, q, workers)
	switch {
	case err != nil:
		return nil, err
	case len(hanging) > 0 && len(hanging) == len(q.free):
		w := hanging[0]
		return slices.Concat(silent, []Reason{{ID: "claims-hang", Level: ops.Warn, Verdict: fmt.Sprintf("No worker that would run job %d has claimed for a while, although it has room.", j.ID),
			Evidence: append(describe(hanging), fmt.Sprintf("the last claim of %s was %v before its report", w.Name, words.Short(w.SeenAt.Sub(w.ClaimedAt)))),
			Remedy:   "look whether its statements wait for a lock or a connection: " + q.Command("doctor") + ", and the worker's log"}}, starved), nil
	case len(q.free) > 0:
		return starved, nil
	case len(failing) > 0:
		var evidence []string
		for _, w := range failing[:min(len(failing), 3)] {
			evidence = append(evidence, fmt.Sprintf("worker %s: %s", w.Name, w.ClaimError))
		}
		return append([]Reason{{ID: "claims-fail", Level: ops.Fail, Verdict: fmt.Sprintf("The claims of %s that would run job %d fail.", words.Count(len(failing), "worker"), j.ID),
			Evidence: evidence, Remedy: "mend what the error names; " + q.Command("doctor") + " looks at the database"}}, silent...), nil
	}
	who := fmt.Sprintf("All %d workers that would run job %d are busy.", len(workers), j.ID)
	if len(workers) == 1 {
		who = fmt.Sprintf("The only worker that would run job %d is busy.", j.ID)
	}
	longest, look, err := describeLongestRuns(ctx, q)
	if err != nil {
		return nil, err
	}
	busy := Reason{ID: "workers-busy", Level: ops.Warn, Verdict: who, Evidence: append(describe(workers), longest...),
		Remedy: "wait; start more workers; raise Concurrency; or give slow kinds a Timeout or a queue of their own" + look}
	holds := func(r driver.RunningJob) bool { return r.Queue == j.Queue }
	if len(starved) > 0 && !slices.ContainsFunc(runs, holds) { // they are busy with that other queue
		return slices.Concat(silent, starved, []Reason{busy}), nil
	}
	return slices.Concat(silent, []Reason{busy}, starved), nil
}

// whyStarved returns the queue that all of the workers serve before the job's queue, if they would
// claim a job of it now that has been due for a while.
func whyStarved(ctx context.Context, q *inquiry, workers []driver.WorkerRecord) ([]Reason, error) {
	j := q.job
	servesFirst := func(w driver.WorkerRecord) bool { return w.Queues[0] == j.Queue }
	if q.at.Sub(j.ScheduledAt) < reader.Soon || slices.ContainsFunc(workers, servesFirst) {
		return nil, nil
	}
	backlogs, err := q.Backlogs(ctx)
	if ok, err := q.tryOrNote(ctx, "which queues have due jobs", err); !ok {
		return nil, err
	}
	for _, b := range backlogs {
		isBehind := func(w driver.WorkerRecord) bool {
			other := slices.Index(w.Queues, b.Queue)
			return other >= 0 && other < slices.Index(w.Queues, j.Queue)
		}
		if b.Queue == j.Queue || b.Age < reader.Soon || slices.ContainsFunc(workers, func(w driver.WorkerRecord) bool { return !isBehind(w) }) {
			continue
		}
		if isHeldUp, err := isHeldUp(ctx, q, b.Queue); err != nil {
			return nil, err
		} else if isHeldUp {
			continue
		}
		c, ok, err := readClaimable(ctx, q, b.Queue, nil, workers)
		if err != nil {
			return nil, err
		}
		if ok && c.longest >= reader.Soon {
			return []Reason{{ID: "starved", Level: ops.Warn, Verdict: fmt.Sprintf("Before the queue %s its workers serve the queue %s, which has due jobs.", j.Queue, b.Queue),
				Evidence: slices.Concat(describe(workers),
					[]string{fmt.Sprintf("%s of the queue %s, the first has been due for %v", words.Count(c.jobs, "due job"), b.Queue, words.Short(c.longest))}, c.others,
					[]string{"workers do not report Weights: with Weights they take turns"}),
				Remedy: "give the queue a worker of its own, or Weights (docs/priorities.md)"}}, nil
		}
	}
	return nil, nil
}

// findWorker returns the record of a worker, if it has reported itself.
func findWorker(q *inquiry, name string) (driver.WorkerRecord, bool) {
	i := slices.IndexFunc(q.workers, func(w driver.WorkerRecord) bool { return w.Name == name })
	if i < 0 {
		return driver.WorkerRecord{}, false
	}
	return q.workers[i], true
}

// similar returns a fact, and which of names are spelled like name, or else which names there are.
func similar(fact, name string, names []string) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	if near := reader.Nearest(name, names); near != "" {
		return []string{fact, "similar names: " + near}
	}
	return []string{fmt.Sprintf("%s (%s)", fact, words.Enumerate(names))}
}

// describe says in a line each what up to three workers do.
func describe(workers []driver.WorkerRecord) (lines []string) {
	for _, w := range workers[:min(len(workers), 3)] {
		line := fmt.Sprintf("worker %s: %d of %d busy", w.Name, w.Busy, w.Concurrency)
		if reader.IsDraining(w) {
			line += ", stopping since " + w.DrainingAt.Format(time.RFC3339)
		}
		lines = append(lines, fmt.Sprintf("%s, reported itself %v ago", line, words.Short(w.Silent)))
	}
	return append(lines, words.More(len(workers)-3)...)
}

// describeLastWorkers says what has become of the workers, if none is alive. The record of a worker
// that stops in order is removed at once, so the statistics of the jobs say when one has last
// worked.
func describeLastWorkers(ctx context.Context, q *inquiry) ([]string, error) {
	gone, last := 0, driver.WorkerRecord{}
	for _, w := range q.workers {
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
			fmt.Sprintf("%s vanished without stopping in order. The last was %s, %v ago", words.Count(gone, "worker"), last.Name, words.Short(last.Silent)),
			fmt.Sprintf("if its process %d on host %s still runs, it hangs, is cut off, or its handlers hold all connections of its pool", last.PID, last.Host),
		}
	}
	list, err := q.Stats(ctx, queue.StatsFilter{From: q.at.Add(-driver.StatsKept), Step: time.Minute})
	if ok, err := q.tryOrNote(ctx, "when a worker has last run a job", err); !ok {
		return became, err
	}
	if len(list) == 0 {
		return append(became, fmt.Sprintf("no worker has ended a job in the last %s", plain.Duration(driver.StatsKept))), nil
	}
	at := list[len(list)-1].At
	return append(became, fmt.Sprintf("a worker last ended a job in the minute of %s", at.Format(time.RFC3339))), nil
}
