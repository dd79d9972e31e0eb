package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue/driver"
)

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
	q.free = slices.DeleteFunc(slices.Clone(workers), func(w driver.WorkerRecord) bool {
		return w.ClaimError != "" || w.Busy >= w.Concurrency || isBounded(w, j.Queue)
	})
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
	if slices.ContainsFunc(workers, func(w driver.WorkerRecord) bool { return w.Busy < w.Concurrency && isBounded(w, j.Queue) }) {
		busy.Verdict = fmt.Sprintf("All slots that workers have for the queue %s are busy, so job %d waits.", j.Queue, j.ID)
		busy.Remedy = "wait; start more workers; or raise the queue's number in the workers' Slots (docs/queues.md)" + look
	}
	holds := func(r driver.RunningJob) bool { return r.Queue == j.Queue }
	if len(starved) > 0 && !slices.ContainsFunc(runs, holds) { // they are busy with that other queue
		return slices.Concat(silent, starved, []Reason{busy}), nil
	}
	return slices.Concat(silent, []Reason{busy}, starved), nil
}

// isBounded reports whether all slots that a worker has for the queue are busy.
func isBounded(w driver.WorkerRecord, queue string) bool {
	return slices.ContainsFunc(w.Slots, func(s driver.QueueSlots) bool { return s.Queue == queue && s.Busy >= s.Slots })
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

// readRuns returns the jobs that the workers hold, the longest first. A report of a worker may be
// ten seconds old, so it counts the slots of each worker that these jobs take as busy, too.
func readRuns(ctx context.Context, q *inquiry, workers []driver.WorkerRecord) ([]driver.RunningJob, error) {
	var names []string
	most := 1
	for _, w := range workers {
		names = append(names, w.Name)
		most = max(most, w.Concurrency)
	}
	runs, err := q.Runs(ctx, min(most, driver.MaxRuns), names...)
	if ok, err := q.tryOrNote(ctx, "what the workers run", err); !ok {
		return nil, err
	}
	held, ofQueue := make(map[string]int), make(map[[2]string]int)
	for _, r := range runs {
		held[r.Worker]++
		ofQueue[[2]string{r.Worker, r.Queue}]++
	}
	for i := range workers {
		w := &workers[i]
		w.Busy = max(w.Busy, min(held[w.Name], w.Concurrency))
		for k := range w.Slots {
			s := &w.Slots[k]
			s.Busy = max(s.Busy, min(ofQueue[[2]string{w.Name, s.Queue}], s.Slots))
		}
	}
	slices.SortFunc(runs, func(a, b driver.RunningJob) int { return cmp.Compare(b.Took, a.Took) })
	q.runs = runs
	if len(runs) > 0 {
		q.longest = runs[0].Took
	}
	return runs, nil
}

// describeLongestRuns says what has been running for longest, and what to do about the first of
// these.
func describeLongestRuns(ctx context.Context, q *inquiry) (evidence []string, remedy string, err error) {
	for i, r := range q.runs[:min(len(q.runs), 3)] {
		job, ok, err := q.Inspector.Job(ctx, r.ID)
		if err != nil {
			return nil, "", err
		}
		text, isCancelled := fmt.Sprintf("job %d of the kind %s has been running for %v", r.ID, r.Kind, words.Short(r.Took)), ok && !job.CancelAt.IsZero()
		if isCancelled {
			text += fmt.Sprintf(", and was cancelled %v ago", words.Short(q.at.Sub(job.CancelAt)))
		}
		evidence = append(evidence, text)
		switch {
		case i > 0 || r.Took < alwaysShort && !isCancelled:
		case isCancelled || r.Took < usuallyShort:
			remedy = "; or see " + q.Command("explain", r.ID)
		default:
			remedy = fmt.Sprintf("; or see %s, and, if it hangs, %s", q.Command("explain", r.ID), q.Command("jobs", "cancel", r.ID))
		}
	}
	return append(evidence, words.More(len(q.runs)-3)...), remedy, nil
}

const (
	// alwaysShort is how long every job may run before its handler is suspected to hang.
	alwaysShort = time.Minute
	// usuallyShort is the same for a kind of which fewer than enoughRuns are known.
	usuallyShort = 10 * time.Minute
	enoughRuns   = 100
)

// whySilent returns the reason if workers that would claim the job have not reported themselves in
// time.
func whySilent(q *inquiry) []Reason {
	silent := slices.DeleteFunc(slices.Clone(q.claimers), func(w driver.WorkerRecord) bool { return !q.isSilent(w) })
	if len(silent) == 0 {
		return nil
	}
	r := Reason{ID: "workers-silent", Level: ops.Warn, Remedy: "look at their processes and logs, and start them again if they have ended. If they have not: " + q.Command("doctor"),
		Verdict:  fmt.Sprintf("%s that would run job %d have not reported themselves for %v: they were killed, hang, or are cut off.", words.Count(len(silent), "worker"), q.job.ID, words.Short(silent[0].Silent)),
		Evidence: []string{reportsNeed}}
	if len(silent) == 1 {
		who := "A worker"
		if len(q.claimers) == 1 {
			who = "The only worker"
		}
		r.Verdict = fmt.Sprintf("%s that would run job %d has not reported itself for %v: it was killed, hangs, or is cut off.", who, q.job.ID, words.Short(silent[0].Silent))
		r.Remedy = "look at its process and log, and start it again if it has ended. If it has not: " + q.Command("doctor")
	}
	for _, w := range silent[:min(len(silent), 3)] {
		r.Evidence = append(r.Evidence, lastSeen(w))
	}
	return []Reason{r}
}
