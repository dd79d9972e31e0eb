package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/queue"
)

const clusterRulesWhat = "20 schedules each second; at most 20 jobs at once and 2 of each of 30 groups, then at most 150 jobs a second and 6 of each group; " +
	"the list of workers; while masters are killed with SIGKILL and replaced, frozen with SIGSTOP, and failed over, and workers are replaced; "

var clusterRules = scenario.Scenario{
	Number: 44,
	Name:   "cluster-rules",
	What:   clusterRulesWhat + "durable",
	System: peer.Redis,
	Query:  "spread=1",
	Run:    func(ctx context.Context, h *harness.Harness) error { return strikeRules(ctx, h, 1) },
}

var clusterRulesAsync = scenario.Scenario{
	Number: 44,
	Name:   "cluster-rules-async",
	What:   clusterRulesWhat + "asynchronous",
	System: peer.RedisAsync,
	Query:  "spread=1",
	Run:    func(ctx context.Context, h *harness.Harness) error { return strikeRules(ctx, h, 0) },
}

var (
	clusterLimits = queue.Rule{Running: 20, PerGroup: 2}
	clusterRates  = queue.Rule{Rate: queue.Rate{Jobs: 150, Burst: 30}, GroupRate: queue.Rate{Jobs: 6, Burst: 4}}
)

const (
	ruledMost = 100 * time.Millisecond // the longest time of a handler
	tickQueue = "ticks"                // which no worker serves
	tickers   = 20
)

// reign keeps the rules of a cluster that is under siege.
type reign struct {
	*siege
	q       *redis.Backend
	crew    *harness.Crew
	watch   *watch
	phases  []ruled
	fleet   []time.Duration // until the list of workers was right, after each outage
	leavers int             // workers that had stopped in order, and were still listed then
	ticks   []tick
}

// ruled is a time with a rule.
type ruled struct {
	queue.Rule
	from, until time.Time
}

func strikeRules(ctx context.Context, h *harness.Harness, durable int) error {
	q, client, err := openQueue(ctx, h, durable)
	if err != nil {
		return err
	}
	defer client.Close()
	r := &reign{siege: newSiege(h), q: q}
	if r.crew, err = h.Crew(4, child.Work{Worker: peer.Worker{Concurrency: 20, Lease: clusterLease}, Least: ruledMost / 2, Most: ruledMost}); err != nil {
		return err
	}
	if err := q.SetSchedules(ctx, nil, eachSecond()...); err != nil {
		return err
	}
	if r.watch, err = newWatch(ctx, h, q); err != nil {
		return err
	}
	reigned := r.reignAll(ctx)
	if err := errors.Join(reigned, r.watch.stop()); err != nil {
		return err
	}
	if err := q.SetRules(ctx, nil, queue.Rule{}); err != nil {
		return err
	}
	if err := r.takeTicks(ctx); err != nil {
		return err
	}
	book, _, err := r.finish(ctx, durable > 0, r.crew)
	if err != nil {
		return err
	}
	checkResumed(h, book.Starts, r.crew.Names(), r.outages[len(r.outages)-1:], clusterResume)
	return r.check(ctx, book, durable > 0)
}

// eachSecond returns schedules with a tick each second, none of which may be left out.
func eachSecond() (all []queue.Schedule) {
	for i := range tickers {
		job := peer.PlainJob(i)
		job.Queue = tickQueue
		all = append(all, queue.Schedule{Name: fmt.Sprintf("steady-%02d", i), Spec: "@every 1s", Missed: queue.MissedAll, Job: job})
	}
	return all
}

// reignAll strikes the cluster under each of the rules.
func (r *reign) reignAll(ctx context.Context) error {
	draw := r.h.Source("strikes")
	for i, rule := range []queue.Rule{clusterLimits, clusterRates} {
		r.watch.isLimited.Store(false)
		if err := r.q.SetRules(ctx, nil, rule); err != nil {
			return err
		}
		if err := r.h.Sleep(ctx, time.Second); err != nil { // jobs still run that started before
			return err
		}
		r.phases = append(r.phases, ruled{Rule: rule, from: time.Now()})
		r.watch.isLimited.Store(rule.Running > 0)
		if err := r.run(ctx, draw, r.order(draw, i)); err != nil {
			return err
		}
		r.phases[i].until = time.Now()
	}
	return nil
}

// order returns the strikes of a phase, in an order that the draw decides.
func (r *reign) order(draw *rand.Rand, phase int) (strikes []strike) {
	if r.h.Short {
		return []strike{r.watched([]strike{r.kill, r.failOver}[phase])}
	}
	strikes = []strike{r.watched(r.kill), r.watched(r.kill), r.watched(r.kill), r.watched(r.freeze), r.watched(r.failOver)}
	draw.Shuffle(len(strikes), func(i, j int) { strikes[i], strikes[j] = strikes[j], strikes[i] })
	return strikes
}

// watched returns a strike right before which one worker has stopped and another one has reported
// itself, and after which the list of workers must be right.
func (r *reign) watched(s strike) strike {
	return func(ctx context.Context, draw *rand.Rand) error {
		place := draw.IntN(len(r.crew.Names()))
		leaver := r.crew.At(place)
		if err := errors.Join(scenario.Stop(leaver), r.crew.Replace(place)); err != nil {
			return err
		}
		if _, err := r.awaitFleet(ctx, leaver.Name); err != nil {
			return err
		}
		if err := s(ctx, draw); err != nil {
			return err
		}
		begun := time.Now()
		hasLeaver, err := r.awaitFleet(ctx, leaver.Name)
		if hasLeaver {
			r.leavers++
		}
		r.fleet = append(r.fleet, time.Since(begun))
		return err
	}
}

// awaitFleet waits until the list of workers has all that run. It reports whether the list still
// has one that has stopped.
func (r *reign) awaitFleet(ctx context.Context, leaver string) (hasLeaver bool, err error) {
	err = r.h.WaitUntil(ctx, time.Minute, func() (bool, error) {
		workers, err := r.q.Workers(ctx)
		if err != nil {
			return false, ctx.Err()
		}
		listed := make(map[string]bool)
		for _, w := range workers {
			listed[w.Name] = !w.Vanished
		}
		hasLeaver = listed[leaver]
		return !slices.ContainsFunc(r.crew.Names(), func(name string) bool { return !listed[name] }), nil
	})
	return hasLeaver, err
}

// takeTicks ends the schedules, reads which ticks were fired, and deletes their jobs, which no
// worker runs.
func (r *reign) takeTicks(ctx context.Context) error {
	for _, s := range eachSecond() {
		if _, err := r.q.Pause(ctx, nil, queue.Target{Schedule: s.Name}, true); err != nil {
			return err
		}
	}
	if err := r.h.Sleep(ctx, 3*time.Second); err != nil {
		return err
	}
	for f := (queue.Filter{Queue: tickQueue, Limit: 1000}); ; {
		page, next, err := r.q.Jobs(ctx, f)
		if err != nil {
			return err
		}
		for i := range page {
			if name, at, ok := queue.TickOf(&page[i].Job); ok {
				r.ticks = append(r.ticks, tick{name, at})
			}
		}
		if f.Before = next; next == 0 {
			break
		}
	}
	_, err := r.q.Delete(ctx, nil, queue.Selection{Queue: tickQueue})
	return err
}
