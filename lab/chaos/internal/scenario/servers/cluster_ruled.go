package servers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// tick is a tick whose job was enqueued.
type tick struct {
	name string
	at   time.Time
}

// check compares what ran with the rules and the schedules.
func (r *reign) check(ctx context.Context, book ledger.Book, durable bool) error {
	r.checkTicks(durable)
	r.checkLimits(book)
	if err := r.checkRates(ctx); err != nil {
		return err
	}
	slowest := slices.Max(r.fleet)
	r.h.Row.CheckTime(slowest <= driver.ReportInterval+time.Second, "after an outage, the list of workers is right again within 10 s", "%.1f s", slowest.Seconds())
	r.h.Row.Note("of %d workers that stopped just before a strike, %d were still listed after it", len(r.fleet), r.leavers)
	return nil
}

// checkTicks demands that each tick has one job. Without durable, those around a failover may be
// missing.
func (r *reign) checkTicks(durable bool) {
	const settled = 4 * time.Second // a process that dies may leave a tick so long to others
	cutoff := r.phases[len(r.phases)-1].until.Add(-settled)
	fired := make(map[string]map[time.Time]int)
	for _, t := range r.ticks {
		if fired[t.name] == nil {
			fired[t.name] = make(map[time.Time]int)
		}
		fired[t.name][t.at]++
	}
	twice, missing, explained := 0, 0, 0
	for _, of := range fired {
		for _, n := range of {
			twice += n - 1
		}
		first := slices.MinFunc(slices.Collect(maps.Keys(of)), time.Time.Compare)
		for at := first; at.Before(cutoff); at = at.Add(time.Second) {
			switch {
			case of[at] > 0:
			case !durable && r.isNearFailover(at):
				explained++
			default:
				missing++
			}
		}
	}
	row := r.h.Row
	row.Check(len(fired) == tickers, "schedules that have fired: 20", "%d, %d jobs", len(fired), len(r.ticks))
	row.Check(twice == 0, "ticks with two jobs: 0", "%d", twice)
	want := "ticks that are missing: 0"
	if !durable {
		want = "ticks that are missing, but for those around a failover: 0"
	}
	row.Check(missing == 0, want, "%d", missing)
	if !durable {
		row.Note("%d ticks around a failover are missing", explained)
	}
}

// isNearFailover reports whether what was written at a time may have been lost.
func (r *reign) isNearFailover(at time.Time) bool {
	return slices.ContainsFunc(r.outages, func(o audit.Fault) bool {
		return r.failsOver(o.What) && at.After(o.At.Add(-2*lag)) && at.Before(o.Until)
	})
}

// checkLimits demands that never more jobs ran than the rule allows: by the partition's own word,
// and by what the handlers did. A failover may forget the last claims. Then their jobs run beside
// as many others.
func (r *reign) checkLimits(book ledger.Book) {
	rule := r.phases[0]
	calm, around := r.mostAtOnce(book, rule)
	row := r.h.Row
	row.Check(isWithin(r.watch.most, rule.Running) && r.watch.samples > 0, fmt.Sprintf("jobs that run at once, says the partition: at most %d", rule.Running), "%d, in %d samples", r.watch.most, r.watch.samples)
	row.Check(isWithin(r.watch.mostOfGroup, rule.PerGroup), fmt.Sprintf("jobs of a group that do: at most %d", rule.PerGroup), "%d", r.watch.mostOfGroup)
	row.Check(isWithin(calm, rule.Running), fmt.Sprintf("handlers that run at once: at most %d", rule.Running), "%d", calm)
	row.Check(around <= 2*rule.Running, fmt.Sprintf("handlers around a failover: at most %d", 2*rule.Running), "%d", around)
}

// isWithin reports whether jobs ran, and never more than the limit.
func isWithin(most, limit int) bool { return most > 0 && most <= limit }

// mostAtOnce returns how many handlers ran at once, at most, away from all outages, and around
// them.
func (r *reign) mostAtOnce(book ledger.Book, p ruled) (calm, around int) {
	type run struct{ number, attempt int }
	ended := make(map[run]time.Time)
	for _, e := range book.Effects {
		ended[run{e.Number, e.Attempt}] = e.At
	}
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, s := range book.Starts {
		end, ok := ended[run{s.Number, s.Attempt}]
		if !ok {
			end = s.At.Add(ruledMost) // it was told that it had lost the job
		}
		changes = append(changes, change{s.At, 1}, change{end, -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	running := 0
	for _, c := range changes {
		running += c.by
		switch {
		case c.at.Before(p.from) || c.at.After(p.until):
		case r.isDisturbed(c.at):
			around = max(around, running)
		default:
			calm = max(calm, running)
		}
	}
	return calm, around
}

// isDisturbed reports whether a forgotten run may still go on at a time.
func (r *reign) isDisturbed(at time.Time) bool {
	return slices.ContainsFunc(r.outages, func(o audit.Fault) bool { return at.After(o.At) && at.Before(o.Until.Add(clusterLease)) })
}

// checkRates demands that no more jobs were started than the rule allows, in any time between two
// outages, and in any time with one: a failover may forget what was started in the last moment.
func (r *reign) checkRates(ctx context.Context) error {
	p := r.phases[1]
	starts, err := r.started(ctx, p)
	if err != nil {
		return err
	}
	for _, rated := range []struct {
		what string
		rate queue.Rate
		of   map[string][]time.Time
	}{{"starts", p.Rate, starts.all()}, {"starts of a group", p.GroupRate, starts}} {
		calm, around := 0, 0
		for _, at := range rated.of {
			slices.SortFunc(at, time.Time.Compare)
			c, a := r.bursts(at, rated.rate)
			calm, around = max(calm, c), max(around, a)
		}
		forgotten := rated.rate.Burst + rated.rate.Jobs*int(lag/time.Second)
		r.h.Row.Check(calm <= rated.rate.Burst, fmt.Sprintf("%s in any window of time beyond the rate: at most %d", rated.what, rated.rate.Burst), "%d", calm)
		r.h.Row.Check(around <= rated.rate.Burst+forgotten, fmt.Sprintf("%s beyond the rate, with one failover in the window: at most %d", rated.what, rated.rate.Burst+forgotten), "%d", around)
	}
	n := len(starts.all()[""])
	used := float64(n) / (p.until.Sub(p.from).Seconds() * float64(p.Rate.Jobs))
	r.h.Row.Check(n > 0, "starts while there was a rate: some", "%d, %.0f %% of its tokens, outages included", n, 100*used)
	return nil
}

// groups are times of starts, by group.
type groups map[string][]time.Time

func (g groups) all() map[string][]time.Time {
	var all []time.Time
	for _, of := range g {
		all = append(all, of...)
	}
	return map[string][]time.Time{"": all}
}

// started returns when jobs were claimed in a phase, as the partition says.
func (r *reign) started(ctx context.Context, p ruled) (groups, error) {
	g := make(groups)
	for f := (queue.Filter{Queue: queue.DefaultQueue, Status: queue.StatusCompleted, NoPayload: true, Limit: 1000}); ; {
		page, next, err := r.q.Jobs(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, j := range page {
			if j.StartedAt.After(p.from) && j.StartedAt.Before(p.until) {
				g[j.Group] = append(g[j.Group], j.StartedAt)
			}
		}
		if f.Before = next; next == 0 {
			return g, nil
		}
	}
}

// bursts returns how many more of the sorted starts there were in a window than its length allows,
// at most: in windows without an outage, and in those with one.
func (r *reign) bursts(starts []time.Time, rate queue.Rate) (calm, around int) {
	var segments [][]time.Time // between outages
	for _, o := range r.outages {
		i, _ := slices.BinarySearchFunc(starts, o.At, time.Time.Compare)
		segments, starts = append(segments, starts[:i]), starts[i:]
	}
	segments = append(segments, starts)
	for i, s := range segments {
		calm = max(calm, burst(s, rate))
		if i > 0 {
			around = max(around, burst(slices.Concat(segments[i-1], s), rate))
		}
	}
	return calm, around
}

// burst returns the largest number of starts in a window beyond the rate times its length.
func burst(starts []time.Time, rate queue.Rate) int {
	most, lowest := 0.0, math.Inf(1)
	for i, at := range starts {
		// x grows with each start and falls with the rate, so a window's burst is the difference
		// between its ends, and one more; less a thousandth, because times are rounded to
		// microseconds.
		x := float64(i) - at.Sub(starts[0]).Seconds()*float64(rate.Jobs)
		lowest = min(lowest, x)
		most = max(most, x-lowest+1)
	}
	return int(math.Ceil(most - 0.001))
}
