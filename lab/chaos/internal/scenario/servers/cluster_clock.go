package servers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/clock"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
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
	q, client, err := openQueue(ctx, h, 1)
	if err != nil {
		return err
	}
	defer client.Close()
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
	var found []time.Duration // by how much the clock was off, by what the master said
	for _, off := range steps {
		if err := s.h.Sleep(ctx, lasting); err != nil {
			return err
		}
		f := audit.Fault{What: fmt.Sprintf("the clock is off by %v", off), At: time.Now()}
		if err := clock.Set(dir, off); err != nil {
			return err
		}
		is, err := s.clockOf(ctx, master)
		if err != nil {
			return err
		}
		found = append(found, is)
		f.Until = f.At.Add(clusterLease) // by then each lease of before has ended or was extended
		s.h.RecordFault(f)
		s.outages = append(s.outages, f)
		s.h.Logf("%s", f.What)
	}
	s.checkClock(found)
	if err := s.h.Sleep(ctx, max(lasting, clusterLease)); err != nil {
		return err
	}
	still, err := s.partitionsOf(ctx, master)
	s.h.Row.Check(len(s.struck) > 0 && len(still) == len(s.struck), "the master stays the master of its partitions: all", "%d of %d", len(still), len(s.struck))
	return err
}

// clockOf returns by how much a master's clock is off from this process's: what TIME says.
func (s *stepped) clockOf(ctx context.Context, master redistest.Node) (time.Duration, error) {
	client, err := s.h.Cluster.Client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	node, ok := client.Nodes()[master.Addr]
	if !ok {
		return 0, fmt.Errorf("the cluster does not name %s", master.Addr)
	}
	told, err := node.Do(ctx, node.B().Time().Build()).AsIntSlice()
	if err != nil {
		return 0, err
	}
	if len(told) != 2 {
		return 0, fmt.Errorf("TIME of %s: got %v, want seconds and microseconds", master.Addr, told)
	}
	return time.Until(time.Unix(told[0], told[1]*1000)), nil
}

// checkClock demands that the clock jumped each time, and as far as it was set.
func (s *stepped) checkClock(found []time.Duration) {
	const within = 2 * time.Second
	jumped := slices.EqualFunc(found, steps, func(is, off time.Duration) bool { return (is - off).Abs() <= within })
	s.h.Row.CheckTime(jumped, fmt.Sprintf("the master's clock, by its TIME, is off by %v, each ± %v", steps, within), "%v", found)
}

// check demands that the jobs of the other partitions were neither early nor late nor run twice,
// and says what became of those with the wrong clock.
func (s *stepped) check(ctx context.Context, book ledger.Book, workers []string) error {
	partitions, err := partitionsIn(ctx, s.q)
	if err != nil {
		return err
	}
	struck, others, unknown := s.divide(book, partitions)
	row := s.h.Row
	row.Check(unknown == 0, "starts of jobs whose partition is not known: 0", "%d", unknown)
	row.Check(struck.delayed > 0 && others.delayed > 0, "delayed jobs, in that master's partitions and in others: some", "%d and %d", struck.delayed, others.delayed)
	row.Check(others.again == 0 && struck.again == 0, "jobs that ran twice, in that master's partitions and in others: 0", "%d and %d", struck.again, others.again)
	row.Check(others.early == 0, "delayed jobs of other partitions that were early: 0", "%d of %d", others.early, others.delayed)
	row.CheckTime(others.late == 0, fmt.Sprintf("delayed jobs of other partitions that were late by more than %v: 0", punctual), "%d of %d", others.late, others.delayed)
	row.Check(s.pulse.backward == 0 && s.pulse.ids > 0 && s.pulse.fences > 0, "IDs and fences that were not higher than the last one of their partition: 0",
		"%d of %d IDs and %d fences", s.pulse.backward, s.pulse.ids, s.pulse.fences)
	row.Note("of the %d delayed jobs of its partitions, %d were early, by up to %.1f s, and %d late, by up to %.1f s; %d jobs ran twice; leases of %v",
		struck.delayed, struck.early, struck.earliest.Seconds(), struck.late, struck.latest.Seconds(), struck.again, clusterLease)
	checkResumed(s.h, book.Starts, workers, s.outages[len(s.outages)-1:], clusterResume)
	return nil
}

// divide returns how early and late the jobs were in the partitions with the wrong clock, and in
// the others; and how many starts were of jobs that are in no partition.
func (s *stepped) divide(book ledger.Book, partitions map[int]int) (struck, others timeliness, unknown int) {
	asked := make(map[int]time.Time)
	for _, n := range book.Notes {
		if n.Text == child.Asked {
			for i := range n.Attempt {
				asked[n.Number+i] = n.At
			}
		}
	}
	seen := make(map[int]bool)
	for _, start := range book.Starts {
		p, ok := partitions[start.Number]
		if !ok {
			unknown++
			continue
		}
		t := &others
		if s.struck[p] {
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
	return struck, others, unknown
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
