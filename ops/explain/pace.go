package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
)

// enoughPace is how many runs tell how fast a queue is worked off. Fewer than leastPace tell
// nothing.
const (
	enoughPace = 20
	leastPace  = 5
)

// describePace says how long the workers of the job's queue take for so many jobs, or at least so
// many unless isAll, at the pace of the last minutes, if the backend knows that. They take no less
// than a rate of the queue allows.
func describePace(ctx context.Context, q *inquiry, jobs int, isAll bool) ([]string, error) {
	const last = 15 * time.Minute
	list, err := q.Stats(ctx, queue.StatsFilter{From: q.at.Add(-last), Step: time.Minute, ByQueue: true})
	if ok, err := q.tryOrNote(ctx, "how fast the queue is worked off", err); !ok {
		return nil, err
	}
	least := time.Duration(0) // by the rate
	if rate := findRule(q, "").Rate; rate.Jobs > 0 {
		least = time.Duration(jobs) * each(rate)
	}
	ended, since := countLastMinutes(q, list)
	if ended == 0 {
		return []string{fmt.Sprintf("no job of the queue has ended in the last %s", plain.Duration(last))}, nil
	}
	if ended < leastPace {
		text := fmt.Sprintf("%s of the queue ended in the last %s: too few to tell how long these take", words.Count(ended, "run"), plain.Duration(last))
		if least > 0 {
			text += fmt.Sprintf("; at least %v, by its rate", words.Short(least))
		}
		return []string{text}, nil
	}
	took := findPaceEnd(q).Sub(findPaceStart(q, since))
	if took <= 0 {
		took = max(q.at.Sub(since), time.Second)
	}
	at, estimate := "at this pace", time.Duration(float64(took)/float64(ended)*float64(jobs))
	if share := computeBusyShare(q, list, since, took); share < mostlyBusy {
		if areRunsLonger(q, list, since, ended) {
			return []string{fmt.Sprintf("%s of the queue ended in the last %s, and took less time than what the workers run now, up to %v so far: how long these take is not known",
				words.Count(ended, "run"), words.Short(took), words.Short(q.longest))}, nil
		}
		at = fmt.Sprintf("its workers were busy for %.0f %% of that, so at their full pace", 100*share)
		estimate = max(time.Duration(float64(estimate)*share), min(estimate, time.Duration(jobs)*leastRun))
	}
	about := "about"
	if !isAll {
		about = "at least"
	}
	return []string{fmt.Sprintf("%s of the queue ended in the last %s: %s these take %s %s",
		words.Count(ended, "run"), words.Short(took), at, about, words.Short(max(estimate, least)))}, nil
}

const (
	// mostlyBusy is the share of time in which workers are busy from which on their pace counts as it
	// is: they wait for the database, too.
	mostlyBusy = 0.8
	// leastRun is what a worker takes for a job that does nothing.
	leastRun = time.Millisecond
)

// countLastMinutes returns how many runs of the job's queue have ended since the minute that it
// returns, in the last minutes without a pause: enough to tell a pace, if there are so many.
func countLastMinutes(q *inquiry, list []queue.StatsRecord) (ended int64, since time.Time) {
	since = q.at
	for _, s := range slices.Backward(list) {
		if s.Queue != q.job.Queue {
			continue
		}
		if isIdle := since.Sub(s.At) > time.Minute; isIdle && ended >= enoughPace {
			break
		}
		ended += s.Done + s.Failed + s.Dead
		since = s.At
	}
	return ended, since
}

// areRunsLonger reports whether the workers have no room, and what they run now has taken twice as
// long as the runs of the queue that have ended since then. Then the ended runs do not tell when a
// worker will have room.
func areRunsLonger(q *inquiry, list []queue.StatsRecord, since time.Time, ended int64) bool {
	if len(q.free) > 0 || q.longest < reader.Soon {
		return false
	}
	var ran, running time.Duration
	for _, s := range list {
		if !s.At.Before(since) && s.Queue == q.job.Queue {
			ran += s.Ran
		}
	}
	for _, r := range q.runs {
		running += r.Took
	}
	return running/time.Duration(len(q.runs)) > 2*ran/time.Duration(ended)
}

// computeBusyShare returns for which share of the time since then the slots of the job's workers
// have run jobs, of any queue, with what runs now. It is 1 if that cannot be known, and if groups
// take turns or wait for limits: then a slot may be free although jobs are due.
func computeBusyShare(q *inquiry, list []queue.StatsRecord, since time.Time, took time.Duration) float64 {
	slots := 0
	var queues []string
	for _, w := range q.claimers {
		slots += w.Concurrency
		queues = append(queues, w.Queues...)
	}
	if limit := findRule(q, "").Running; limit > 0 {
		slots = min(slots, limit)
	}
	var ran time.Duration
	for _, s := range list {
		if !s.At.Before(since) && slices.Contains(queues, s.Queue) {
			ran += s.Ran
		}
	}
	for _, r := range q.runs {
		ran += min(r.Took, took)
	}
	if slots == 0 || ran == 0 || q.rules.takesTurns(q.job.Queue) {
		return 1
	}
	return min(float64(ran)/(float64(took)*float64(slots)), 1)
}

// findPaceStart returns when the first runs of the minute began: not before the first worker of the
// queue was started, if that was in this minute.
func findPaceStart(q *inquiry, minute time.Time) time.Time {
	first := minute.Add(time.Minute)
	for _, w := range q.workers {
		if slices.Contains(w.Queues, q.job.Queue) && w.StartedAt.Before(first) {
			first = w.StartedAt
		}
	}
	if first.Before(minute) || !first.Before(minute.Add(time.Minute)) {
		return minute
	}
	return first
}

// findPaceEnd returns up to when runs are counted: the workers' last report.
func findPaceEnd(q *inquiry) time.Time {
	var last time.Time
	for _, w := range q.workers {
		if slices.Contains(w.Queues, q.job.Queue) && w.SeenAt.After(last) {
			last = w.SeenAt
		}
	}
	if last.IsZero() {
		return q.at
	}
	return last
}
