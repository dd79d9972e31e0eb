package engine

import (
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

// addRun counts a run of which e tells how it has ended. Its job had waited for waited.
func (t *tallies) addRun(minute int64, e queue.Event, waited time.Duration) {
	if t.all == nil || e.Type != queue.EventCompleted && e.Type != queue.EventRetried && e.Type != queue.EventDead {
		return
	}
	t.of(tallyKey{minute, e.Job.Queue, e.Job.Kind}).CountRun(e, waited)
}

// addReclaimed counts jobs that were reclaimed.
func (t *tallies) addReclaimed(minute int64, reclaimed []queue.Event) {
	if t.all == nil {
		return
	}
	for _, e := range reclaimed {
		s := t.of(tallyKey{minute, e.Job.Queue, e.Job.Kind})
		s.Lost++
		if e.Type == queue.EventDead {
			s.Dead++
		}
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

// countRun counts a run of which e tells how it has ended. Its job had waited for waited.
func (r *reporting) countRun(e queue.Event, waited time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tallies.addRun(r.minuteNow(), e, waited)
}

// countBatch counts the runs of a batch that Settle has recorded.
func (r *reporting) countBatch(batch []*heldJob) {
	minute := r.minuteNow()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range batch {
		r.tallies.addRun(minute, h.end.event, h.waited)
	}
}

// countReclaimed counts jobs that were reclaimed.
func (r *reporting) countReclaimed(reclaimed []queue.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tallies.addReclaimed(r.minuteNow(), reclaimed)
}
