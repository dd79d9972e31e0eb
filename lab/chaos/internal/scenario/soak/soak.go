package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/scenario/servers"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

var soak = scenario.Scenario{
	Number:   22,
	Name:     "soak",
	What:     "two hours of load and of the other faults at random",
	Run:      soakAll,
	Settings: servers.FewConnections,
}

const (
	leaseOfSoaked = 3 * time.Second
	// idleOfSoaked makes a pool close connections that it needed only for a moment. So the number
	// of connections is the number in use.
	idleOfSoaked = time.Second
)

// soaked is a running soak. The first worker is never killed or told to stop, so that what it uses
// at the end can be compared with the beginning.
type soaked struct {
	*harness.Harness
	crew       *harness.Crew
	draw       *rand.Rand
	footprints []footprint
}

func soakAll(ctx context.Context, h *harness.Harness) error {
	s := &soaked{Harness: h, draw: h.Source("faults")}
	if err := s.begin(); err != nil {
		return err
	}
	enqueuer, err := h.Enqueuer("enqueuer", child.Enqueue{Batch: 20, Ahead: 500})
	if err != nil {
		return err
	}
	begun := time.Now()
	for deck := []soakFault(nil); time.Since(begun) < harness.Size(h, 2*time.Hour, 20*time.Second); deck = deck[1:] {
		if len(deck) == 0 {
			deck = s.shuffled()
		}
		if err := s.rest(ctx); err != nil {
			return err
		}
		h.Logf("after %v: %s", time.Since(begun).Round(time.Second), deck[0].name)
		if err := deck[0].strike(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", deck[0].name, err)
		}
	}
	if err := s.rest(ctx); err != nil {
		return err
	}
	f, book, err := scenario.Finish(ctx, h, s.crew, enqueuer)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	gauges, err := child.Gauges(book.Notes, s.crew.At(0).Name)
	if err != nil {
		return err
	}
	s.checkFlat(gauges)
	h.Row.Note("leases of %v; %.0f jobs/s on the whole; completed jobs are kept for %v", leaseOfSoaked, audit.Rate(book.Effects, begun, time.Now()), s.keep())
	return nil
}

func (s *soaked) begin() (err error) {
	s.crew, err = s.Crew(4, child.Work{
		Worker: peer.Worker{Concurrency: 8, Lease: leaseOfSoaked, Grace: 5 * time.Second, Keep: s.keep(), Idle: idleOfSoaked},
		Least:  50 * time.Millisecond, // 32 handlers run some 150 jobs a second
		Most:   350 * time.Millisecond,
		Gauge:  harness.Size(s.Harness, 10*time.Second, time.Second/2),
	})
	return err
}

// keep is how long completed jobs are kept: until a worker prunes, or in a short run not at all.
func (s *soaked) keep() time.Duration { return harness.Size(s.Harness, time.Minute, -1) }

// rest lets the workers work, and measures the queue regularly.
func (s *soaked) rest(ctx context.Context) error {
	until := time.Now().Add(seed.Between(s.draw, harness.Size(s.Harness, 8*time.Second, time.Second), harness.Size(s.Harness, 25*time.Second, 2*time.Second)))
	for time.Now().Before(until) {
		if err := s.Sleep(ctx, harness.Size(s.Harness, 4*time.Second, time.Second/4)); err != nil {
			return err
		}
		f, err := s.measure(ctx)
		if err != nil {
			return err
		}
		s.footprints = append(s.footprints, f)
	}
	return nil
}

// shuffled returns all faults in random order.
func (s *soaked) shuffled() []soakFault {
	deck := make([]soakFault, len(soakFaults))
	for to, from := range s.draw.Perm(len(soakFaults)) {
		deck[to] = soakFaults[from]
	}
	return deck
}
