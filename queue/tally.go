package queue

import (
	"slices"
	"time"
)

// Counting what runs come to, for a backend that is a [Statistician].
//
//   - Problem: a chart of the last day must not read millions of jobs, and a job must not cost a
//     write more.
//   - Rule: the worker counts in memory, by minute, queue and kind, and adds the counts to those of
//     the backend with its reports. If a report fails, they wait for the next one. So what a crash
//     takes is not counted, and what a report has recorded before its answer was lost is counted
//     twice.
//   - Bounds: maxTallies different minutes, queues and kinds between two reports. Further ones count
//     as OtherStats, and what cannot even be counted so, after hours of failed reports, does not
//     count.
//   - Test: TestStats, TestStatsManyKinds, TestStatsWait.

const (
	maxTallies      = 500
	maxOtherTallies = 200
)

// tallyKey is what runs have in common that are counted together. minute is in minutes since 1970.
type tallyKey struct {
	minute      int64
	queue, kind string
}

// tally is what such runs came to.
type tally struct {
	done, failed, dead, lost int64
	ran, waited              time.Duration
	runs, waits              [MaxBuckets]int64
}

// tallies counts runs. Its zero value counts nothing. It has no lock of its own.
type tallies struct {
	all  map[tallyKey]*tally // nil if nothing is counted
	key  tallyKey            // of the run before, which is likely to be that of the next
	last *tally
}

// of returns the tally of a job for that minute.
func (t *tallies) of(minute int64, job *Job) *tally {
	if t.last != nil && t.key.minute == minute && t.key.kind == job.Kind && t.key.queue == job.Queue {
		return t.last
	}
	key := tallyKey{minute, job.Queue, job.Kind}
	found := t.all[key]
	if found == nil && len(t.all) >= maxTallies {
		key = tallyKey{minute, OtherStats, OtherStats}
		found = t.all[key]
	}
	if found == nil {
		found = &tally{}
		if len(t.all) < maxTallies+maxOtherTallies {
			t.all[key] = found
		}
	}
	t.key, t.last = tallyKey{minute, job.Queue, job.Kind}, found
	return found
}

// addRun counts a run that has ended with that action.
func (t *tallies) addRun(minute int64, job *Job, action Action, ran, waited time.Duration) {
	if t.all == nil || action != Done && action != Retry && action != Dead {
		return
	}
	c := t.of(minute, job)
	switch action {
	case Done:
		c.done++
	case Retry:
		c.failed++
	case Dead:
		c.dead++
	}
	waited = max(waited, 0)
	c.ran += ran
	c.waited += waited
	c.runs[bucketOf(ran)]++
	c.waits[bucketOf(waited)]++
}

// addReclaimed counts a job that was reclaimed.
func (t *tallies) addReclaimed(minute int64, job *Job) {
	if t.all == nil {
		return
	}
	c := t.of(minute, job)
	c.lost++
	if isLastAttempt(job) && job.LastError != ReclaimedCancelled {
		c.dead++
	}
}

// take returns what was counted, nil for nothing, and begins anew. What it returns is the caller's.
func (t *tallies) take() map[tallyKey]*tally {
	if len(t.all) == 0 {
		return nil
	}
	taken := t.all
	*t = tallies{all: make(map[tallyKey]*tally)}
	return taken
}

// putBack adds what take has returned.
func (t *tallies) putBack(taken map[tallyKey]*tally) {
	for key, back := range taken {
		c := t.of(key.minute, &Job{Queue: key.queue, Kind: key.kind})
		c.done += back.done
		c.failed += back.failed
		c.dead += back.dead
		c.lost += back.lost
		c.ran += back.ran
		c.waited += back.waited
		for i := range back.runs {
			c.runs[i] += back.runs[i]
			c.waits[i] += back.waits[i]
		}
	}
}

// statsOf returns tallies as a report has them. now is the time in which their minutes count.
func statsOf(taken map[tallyKey]*tally, now time.Time) []MinuteStats {
	if len(taken) == 0 {
		return nil
	}
	all := make([]MinuteStats, 0, len(taken))
	for key, c := range taken {
		all = append(all, MinuteStats{
			Queue: key.queue, Kind: key.kind, Age: max(now.Sub(time.Unix(60*key.minute, 0)), 0),
			Stats: Stats{
				Done: c.done, Failed: c.failed, Dead: c.dead, Lost: c.lost, Ran: c.ran, Waited: c.waited,
				RunTimes: histogramOf(c.runs[:]), WaitTimes: histogramOf(c.waits[:]),
			},
		})
	}
	return all
}

// histogramOf returns the counts without the empty ones at the end.
func histogramOf(counts []int64) Histogram {
	n := len(counts)
	for n > 0 && counts[n-1] == 0 {
		n--
	}
	return slices.Clone(counts[:n])
}

// minuteNow returns the current minute since 1970, by a clock that does not jump while the worker
// runs.
func (r *run) minuteNow() int64 { return r.steadyNow().Unix() / 60 }

// steadyNow returns the time by a clock that does not jump while the worker runs.
func (r *run) steadyNow() time.Time { return r.started.Add(time.Since(r.started)) }

// dueAt returns when the job became due, by the backend's clock.
func dueAt(job *Job) time.Time {
	if job.ScheduledAt.After(job.CreatedAt) {
		return job.ScheduledAt
	}
	return job.CreatedAt
}

// recorded returns what Settle has recorded for a job that is not lost: a job that is asked to be
// cancelled is, if it would run again.
func recorded(h *heldJob) Action {
	if a := h.outcome.Action; !h.isAsked || a != Retry && a != Release {
		return a
	}
	return Cancel
}

// hasTallies reports whether anything was counted since the last report.
func (r *run) hasTallies() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tallies.all) > 0
}

func (r *run) takeTallies() map[tallyKey]*tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tallies.take()
}

func (r *run) putTalliesBack(counted map[tallyKey]*tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tallies.putBack(counted)
}

// countReclaimed counts jobs that were reclaimed.
func (r *run) countReclaimed(jobs []*Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, job := range jobs {
		r.tallies.addReclaimed(r.minuteNow(), job)
	}
}
