package engine

import (
	"slices"
	"time"

	"github.com/errandhq/errand/internal/check"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Counting what runs come to, for a backend that is a [driver.Statistician].
//
//   - Problem: a chart of the last day must not read millions of jobs, and a job must not cost a
//     write more.
//   - Rule: the worker counts in memory, by minute, queue and kind, and adds the counts to those of
//     the backend with its reports. If a report fails, they wait for the next one. So what a crash
//     takes is not counted, and what a report has recorded before its answer was lost is counted
//     twice.
//   - Bounds: maxTallies different minutes, queues and kinds between two reports. Further ones
//     count as OtherStats, and so do names that a report may not have, which SQL can write. What
//     cannot even be counted so, after hours of failed reports, does not count.
//   - Test: TestStats, TestStatsManyKinds, TestStatsWait, TestTallyOfAnything.

const (
	maxTallies      = 500
	maxOtherTallies = 200
)

// tallyKey is what runs have in common that are counted together. minute is in minutes since 1970.
type tallyKey struct {
	minute      int64
	queue, kind string
}

// tallies counts runs. Its zero value counts nothing. It has no lock of its own.
type tallies struct {
	all  map[tallyKey]*queue.Stats // nil if nothing is counted
	key  tallyKey                  // of the run before, which is likely to be that of the next
	last *queue.Stats
}

// of returns what runs with that key came to, so far.
func (t *tallies) of(key tallyKey) *queue.Stats {
	if t.last != nil && t.key == key {
		return t.last
	}
	counted := key
	found := t.all[counted]
	if found == nil && (len(t.all) >= maxTallies || check.Name(key.queue)+check.Name(key.kind) != "") {
		counted.queue, counted.kind = driver.OtherStats, driver.OtherStats
		found = t.all[counted]
	}
	if found == nil {
		found = new(queue.Stats)
		if len(t.all) < maxTallies+maxOtherTallies {
			t.all[counted] = found
		}
	}
	t.key, t.last = key, found
	return found
}

// addRun counts a run that has ended with that action.
func (t *tallies) addRun(minute int64, job *queue.Job, action queue.OutcomeAction, ran, waited time.Duration) {
	if t.all == nil || action != queue.Done && action != queue.Retry && action != queue.Dead {
		return
	}
	t.of(tallyKey{minute, job.Queue, job.Kind}).CountRun(action, ran, waited)
}

// addReclaimed counts a job that was reclaimed.
func (t *tallies) addReclaimed(minute int64, job *queue.Job) {
	if t.all == nil {
		return
	}
	s := t.of(tallyKey{minute, job.Queue, job.Kind})
	s.Lost++
	if isLastAttempt(job) && job.LastError != driver.ReclaimedCancelled {
		s.Dead++
	}
}

// take returns what was counted, nil for nothing, and begins anew. What it returns is the caller's.
func (t *tallies) take() map[tallyKey]*queue.Stats {
	if len(t.all) == 0 {
		return nil
	}
	taken := t.all
	*t = tallies{all: make(map[tallyKey]*queue.Stats)}
	return taken
}

// putBack adds what take has returned.
func (t *tallies) putBack(taken map[tallyKey]*queue.Stats) {
	for key, s := range taken {
		t.of(key).Add(*s)
	}
}

// statsOf returns what take has returned as a report has it. now is the time in which its minutes
// count.
func statsOf(taken map[tallyKey]*queue.Stats, now time.Time) []driver.MinuteStats {
	all := make([]driver.MinuteStats, 0, len(taken))
	for key, s := range taken {
		all = append(all, driver.MinuteStats{Queue: key.queue, Kind: key.kind, Age: max(now.Sub(time.Unix(60*key.minute, 0)), 0), Stats: *s})
	}
	return all
}

// minuteNow returns the current minute since 1970, by a clock that does not jump while the worker
// runs.
func (r *reporting) minuteNow() int64 { return r.steadyNow().Unix() / 60 }

// steadyNow returns the time by a clock that does not jump while the worker runs.
func (r *reporting) steadyNow() time.Time { return r.started.Add(time.Since(r.started)) }

// hasTallies reports whether anything was counted since the last report.
func (r *reporting) hasTallies() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tallies.all) > 0
}

func (r *reporting) takeTallies() map[tallyKey]*queue.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tallies.take()
}

func (r *reporting) putTalliesBack(counted map[tallyKey]*queue.Stats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tallies.putBack(counted)
}

// countRun counts a run that has ended with that action.
func (r *reporting) countRun(job *queue.Job, action queue.OutcomeAction, ran, waited time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tallies.addRun(r.minuteNow(), job, action, ran, waited)
}

// countEnded counts the runs of a batch that Settle has recorded, except for the lost jobs.
func (r *reporting) countEnded(batch []*heldJob, lost []*queue.Job) {
	minute := r.minuteNow()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range batch {
		if len(lost) == 0 || !slices.Contains(lost, h.job) {
			r.tallies.addRun(minute, h.job, h.outcome.Action, h.took, h.waited)
		}
	}
}

// countReclaimed counts jobs that were reclaimed.
func (r *reporting) countReclaimed(jobs []*queue.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, job := range jobs {
		r.tallies.addReclaimed(r.minuteNow(), job)
	}
}
