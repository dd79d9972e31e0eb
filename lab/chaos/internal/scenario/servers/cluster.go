package servers

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

const clusterWhat = "masters of a Redis Cluster are killed with SIGKILL and replaced, frozen with SIGSTOP, and failed over, and slots move to other masters, under load; "

var cluster = scenario.Scenario{
	Number: 40,
	Name:   "cluster",
	What:   clusterWhat + "durable",
	System: peer.Redis,
	Run:    func(ctx context.Context, h *harness.Harness) error { return strikeCluster(ctx, h, true) },
}

var clusterAsync = scenario.Scenario{
	Number: 40,
	Name:   "cluster-async",
	What:   clusterWhat + "asynchronous",
	System: peer.RedisAsync,
	Run:    func(ctx context.Context, h *harness.Harness) error { return strikeCluster(ctx, h, false) },
}

const (
	clusterLease = 5 * time.Second
	// clusterResume is how long after the last fault each worker must have started jobs again.
	clusterResume = 30 * time.Second
	// clusterCalm is the time between a fault and the next one, when the cluster is whole again.
	clusterCalm = time.Second
)

func strikeCluster(ctx context.Context, h *harness.Harness, durable bool) error {
	crew, err := scenario.Workers(h, clusterLease)
	if err != nil {
		return err
	}
	var enqueuers []*child.Process
	for i := range 2 { // while one waits for a master that is away, the other goes on
		e, err := h.Enqueuer(fmt.Sprintf("enqueuer.%d", i+1), child.Enqueue{First: i * 10_000_000, Batch: 10, Ahead: 1000})
		if err != nil {
			return err
		}
		enqueuers = append(enqueuers, e)
	}
	s := newSiege(h)
	draw := h.Source("strikes")
	if err := s.run(ctx, draw, s.order(draw)); err != nil {
		return err
	}
	book, _, err := s.finish(ctx, durable, crew, enqueuers...)
	if err != nil {
		return err
	}
	checkResumed(h, book.Starts, crew.Names(), s.outages, clusterResume)
	return nil
}

// run strikes the cluster, and lets the workers go on for a while.
func (s *siege) run(ctx context.Context, draw *rand.Rand, strikes []strike) error {
	if err := s.h.Sleep(ctx, harness.Size(s.h, 5*time.Second, time.Second)); err != nil {
		return err
	}
	for _, strike := range strikes {
		if err := strike(ctx, draw); err != nil {
			return err
		}
		if err := s.h.Sleep(ctx, s.calm); err != nil {
			return err
		}
	}
	return s.h.Sleep(ctx, harness.Size(s.h, 5*time.Second, time.Second))
}

// finish stops the enqueuers, waits until all jobs are done, stops the workers, and compares the
// ledger with the partitions. Without durable, jobs may be lost that were acknowledged around a
// failover.
func (s *siege) finish(ctx context.Context, durable bool, crew *harness.Crew, enqueuers ...*child.Process) (book ledger.Book, f audit.Finding, err error) {
	h := s.h
	for _, e := range enqueuers {
		if err := scenario.Stop(e); err != nil {
			return book, f, err
		}
	}
	if err := h.Reopen(ctx); err != nil {
		return book, f, err
	}
	if err := h.Drain(ctx); err != nil {
		return book, f, err
	}
	if err := crew.Stop(); err != nil {
		return book, f, err
	}
	if book, err = h.Ledger.Read(ctx); err != nil {
		return book, f, err
	}
	if !durable {
		h.AllowLoss("what was acknowledged around a failover", s.aroundFailovers(book))
	}
	if f, err = h.AuditBook(ctx, book); err != nil {
		return book, f, err
	}
	h.CheckDuplicates(f)
	if s.mostLost > 0 && !durable { // else AuditBook demands 0
		s.checkLost(f)
	}
	s.note(book)
	return book, f, nil
}

// lag is more than a replica is behind its master.
const lag = time.Second

// aroundFailovers returns the jobs that were acknowledged shortly before or during an outage.
func (s *siege) aroundFailovers(book ledger.Book) (numbers []int) {
	for n, at := range book.Acked {
		for _, o := range s.outages {
			if s.failsOver(o.What) && at.After(o.At.Add(-lag)) && at.Before(o.Until) {
				numbers = append(numbers, n)
				break
			}
		}
	}
	return numbers
}

// checkLost demands that what asynchronous replication loses is little, and says how much it is.
func (s *siege) checkLost(f audit.Finding) {
	s.h.Row.Check(float64(len(f.Missed)) <= s.mostLost*float64(f.Acked), fmt.Sprintf("lost ≤ %.0f %% of the acknowledged", 100*s.mostLost),
		"%d of %d, in %d outages: %s", len(f.Missed), f.Acked, len(s.outages), harness.FirstFew(f.Missed))
}

// note says what struck the cluster, and what its clients noticed.
func (s *siege) note(book ledger.Book) {
	for _, what := range slices.Sorted(maps.Keys(s.took)) {
		took := slices.Sorted(slices.Values(s.took[what]))
		if n := len(took); n > 0 {
			s.h.Row.Note("%s %d times: all answered again after %.1f s, the slowest after %.1f s", what, n, took[n/2].Seconds(), took[n-1].Seconds())
		}
	}
	s.h.Row.Note("leases of %v; nothing was acknowledged for %.1f s at most; the answers of %d jobs are unknown",
		clusterLease, longestPauseOf(book).Seconds(), len(child.InDoubt(book.Notes)))
}

// longestPauseOf returns the longest time between two acknowledgements.
func longestPauseOf(book ledger.Book) (longest time.Duration) {
	times := slices.SortedFunc(maps.Values(book.Acked), time.Time.Compare)
	for i, at := range times[min(1, len(times)):] {
		longest = max(longest, at.Sub(times[i]))
	}
	return longest
}
