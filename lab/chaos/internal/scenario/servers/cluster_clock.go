package servers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/clock"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/queue"
)

var clusterClock = scenario.Scenario{
	Number: 43,
	Name:   "cluster-clock",
	What:   "the clock of one Redis master jumps an hour ahead, back, an hour behind, and back, under load; durable",
	System: peer.Redis,
	Clocks: true,
	Run:    stepClock,
}

// steps are by how much the clock is off, one after the other. The last one is for jobs that were
// delayed while it was ahead: they are due an hour late.
var steps = []time.Duration{time.Hour, 0, -time.Hour, 0, time.Hour}

// delays are those of every third job.
var delays = child.Later{Least: time.Second, Most: 4 * time.Second}

// stepped is a cluster whose one master has a wrong clock.
type stepped struct {
	*siege
	q      *redis.Backend
	struck map[int]bool // the partitions of that master
	pulse  *pulse
}

func stepClock(ctx context.Context, h *harness.Harness) error {
	client, err := peer.RedisClient(h.DSN())
	if err != nil {
		return err
	}
	defer client.Close()
	options, err := peer.RedisOptions(h.DSN(), 1)
	if err != nil {
		return err
	}
	q, err := redis.New(ctx, client, options)
	if err != nil {
		return err
	}
	crew, err := scenario.Workers(h, clusterLease)
	if err != nil {
		return err
	}
	enqueuer, err := h.Enqueuer("enqueuer", child.Enqueue{Batch: 4, Rate: 150, Later: delays})
	if err != nil {
		return err
	}
	s := &stepped{siege: newSiege(h), q: q, pulse: newPulse(ctx, q)}
	defer s.pulse.stop()
	if err := s.stepAll(ctx); err != nil {
		return err
	}
	if err := scenario.Stop(enqueuer); err != nil {
		return err
	}
	s.pulse.stop()
	if err := s.pulse.drain(ctx, h); err != nil {
		return err
	}
	f, book, err := crew.Finish(ctx)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	return s.check(ctx, book, crew.Names())
}

// stepAll draws a master, and sets its clock again and again.
func (s *stepped) stepAll(ctx context.Context) error {
	master, _, err := s.choose(ctx, s.h.Source("strikes"))
	if err != nil {
		return err
	}
	if s.struck, err = s.partitionsOf(ctx, master); err != nil {
		return err
	}
	dir, err := s.h.Cluster.Directory(ctx, master.Addr)
	if err != nil {
		return err
	}
	lasting := harness.Size(s.h, 20*time.Second, 2*time.Second)
	for _, off := range steps {
		if err := s.h.Sleep(ctx, lasting); err != nil {
			return err
		}
		f := audit.Fault{What: fmt.Sprintf("the clock is off by %v", off), At: time.Now()}
		if err := clock.Set(dir, off); err != nil {
			return err
		}
		f.Until = f.At.Add(clusterLease) // by then each lease of before has ended or was extended
		s.h.RecordFault(f)
		s.outages = append(s.outages, f)
		s.h.Logf("%s", f.What)
	}
	if err := s.h.Sleep(ctx, max(lasting, clusterLease)); err != nil {
		return err
	}
	still, err := s.partitionsOf(ctx, master)
	s.h.Row.Check(len(s.struck) > 0 && len(still) == len(s.struck), "the master stays the master of its partitions: all", "%d of %d", len(still), len(s.struck))
	return err
}

// check demands that the jobs of the other partitions were neither early nor late nor run twice,
// and says what became of those with the wrong clock.
func (s *stepped) check(ctx context.Context, book ledger.Book, workers []string) error {
	partitions, err := s.partitions(ctx)
	if err != nil {
		return err
	}
	asked := make(map[int]time.Time)
	for _, n := range book.Notes {
		if n.Text == child.Asked {
			for i := range n.Attempt {
				asked[n.Number+i] = n.At
			}
		}
	}
	var struck, others timeliness
	seen := make(map[int]bool)
	for _, start := range book.Starts {
		t := &others
		if s.struck[partitions[start.Number]] {
			t = &struck
		}
		if seen[start.Number] {
			t.again++
			continue
		}
		seen[start.Number] = true
		acked, ok := book.Acked[start.Number]
		if d := delays.Delay(s.h.Seed, start.Number); d > 0 && ok {
			t.add(asked[start.Number].Add(d).Sub(start.At), start.At.Sub(acked.Add(d)))
		}
	}
	row := s.h.Row
	row.Check(others.again == 0, "jobs of other partitions that ran twice: 0", "%d", others.again)
	row.Check(others.early == 0, "delayed jobs of other partitions that were early: 0", "%d of %d", others.early, others.delayed)
	row.CheckTime(others.late == 0, fmt.Sprintf("delayed jobs of other partitions that were late by more than %v: 0", punctual), "%d of %d", others.late, others.delayed)
	row.Check(s.pulse.backward == 0 && s.pulse.ids > 0 && s.pulse.fences > 0, "IDs and fences that were not higher than the last one of their partition: 0",
		"%d of %d IDs and %d fences", s.pulse.backward, s.pulse.ids, s.pulse.fences)
	row.Note("of the %d delayed jobs of its partitions, %d were early, by up to %.1f s, and %d late, by up to %.1f s; %d jobs ran twice; leases of %v",
		struck.delayed, struck.early, struck.earliest.Seconds(), struck.late, struck.latest.Seconds(), struck.again, clusterLease)
	checkResumed(s.h, book.Starts, workers, s.outages[len(s.outages)-1:], clusterResume)
	return nil
}

// punctual is how late a job may be.
const punctual = 3 * time.Second

// timeliness is how early and late jobs were.
type timeliness struct {
	delayed, early, late, again int
	earliest, latest            time.Duration
}

func (t *timeliness) add(early, late time.Duration) {
	t.delayed++
	if early > 0 {
		t.early++
	}
	if late > punctual {
		t.late++
	}
	t.earliest, t.latest = max(t.earliest, early), max(t.latest, late)
}

// partitions returns in which partition each job is, by number.
func (s *stepped) partitions(ctx context.Context) (map[int]int, error) {
	of := make(map[int]int)
	for f := (queue.Filter{Queue: queue.DefaultQueue, Limit: 200}); ; {
		page, next, err := s.q.Jobs(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page {
			number, err := peer.NumberOf(&page[i].Job)
			if err != nil {
				return nil, err
			}
			of[number] = peer.RedisPartition(page[i].ID)
		}
		if f.Before = next; next == 0 {
			return of, nil
		}
	}
}

// pulse enqueues and claims jobs of its own, and compares their IDs and fences.
type pulse struct {
	q    *redis.Backend
	end  context.CancelFunc
	over sync.WaitGroup

	ids, fences, backward int
	lastID, lastFence     map[int]int64 // by partition
}

const (
	pulseQueue  = "pulse"
	pulseNumber = 90_000_000 // of all its jobs
)

func newPulse(ctx context.Context, q *redis.Backend) *pulse {
	p := &pulse{q: q, lastID: make(map[int]int64), lastFence: make(map[int]int64)}
	ctx, p.end = context.WithCancel(ctx)
	p.over.Go(func() {
		for ctx.Err() == nil {
			p.enqueue()
			p.work()
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return p
}

// stop ends it. Further calls do nothing.
func (p *pulse) stop() {
	p.end()
	p.over.Wait()
}

// enqueue enqueues a job. It may fail.
func (p *pulse) enqueue() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	job := peer.PlainJob(pulseNumber)
	job.Queue = pulseQueue
	if err := p.q.Enqueue(ctx, nil, job); err == nil {
		p.ids++
		p.compare(p.lastID, peer.RedisPartition(job.ID), job.ID)
	}
}

// work claims what there is, and completes it. It may fail.
func (p *pulse) work() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	claimed, err := p.q.Claim(ctx, queue.ClaimRequest{Queues: []string{pulseQueue}, Worker: pulseQueue, Lease: clusterLease, Limit: 100})
	if err != nil {
		return
	}
	var outcomes []queue.Outcome
	drawn := make(map[int]bool) // jobs of one claim have one fence
	for _, j := range claimed {
		if of := peer.RedisPartition(j.ID); !drawn[of] {
			drawn[of] = true
			p.fences++
			p.compare(p.lastFence, of, j.Fence)
		}
		outcomes = append(outcomes, queue.Outcome{Job: j, Action: queue.Done})
	}
	_, _ = p.q.Settle(ctx, nil, outcomes...) // what it does not settle is claimed again
}

// drain completes what is left of its jobs.
func (p *pulse) drain(ctx context.Context, h *harness.Harness) error {
	return h.WaitUntil(ctx, time.Minute, func() (bool, error) {
		p.work()
		counts, err := p.q.Counts(ctx)
		if err != nil {
			return false, ctx.Err()
		}
		return !slices.ContainsFunc(counts, func(c queue.Count) bool {
			return c.Queue == pulseQueue && c.Status != queue.StatusCompleted && c.Jobs > 0
		}), nil
	})
}

// compare counts a value that is not higher than the last one of a partition.
func (p *pulse) compare(last map[int]int64, partition int, value int64) {
	if value <= last[partition] {
		p.backward++
	}
	last[partition] = value
}
