package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

// What strikes a cluster.
const (
	killed     = "a master killed"
	frozen     = "a master frozen"
	failedOver = "CLUSTER FAILOVER"
	moved      = "a slot moved"
)

// masters is how many masters the cluster has; each has a replica.
const masters = 3

// siege strikes a cluster.
type siege struct {
	h       *harness.Harness
	outages []audit.Fault              // during which some partitions did not answer
	took    map[string][]time.Duration // until the cluster was whole, by what struck
	calm    time.Duration              // between two strikes
	// mostLost is the share of the acknowledged jobs that asynchronous replication may lose; 0 means
	// that the scenario has a bound of its own.
	mostLost float64
}

// strike breaks something, and mends it again.
type strike func(ctx context.Context, draw *rand.Rand) error

func newSiege(h *harness.Harness) *siege {
	return &siege{h: h, took: make(map[string][]time.Duration), calm: clusterCalm, mostLost: 0.01}
}

// failsOver reports whether what strikes a master may make its replica take over.
func (s *siege) failsOver(what string) bool {
	return slices.Contains([]string{killed, frozen, isolated, failoverFull}, what)
}

// order returns the strikes of scenario 40, in an order that the draw decides.
func (s *siege) order(draw *rand.Rand) (strikes []strike) {
	for range harness.Size(s.h, 50, 2) {
		strikes = append(strikes, s.kill)
	}
	for range harness.Size(s.h, 10, 1) {
		strikes = append(strikes, s.freeze, s.failOver, s.reshard)
	}
	draw.Shuffle(len(strikes), func(i, j int) { strikes[i], strikes[j] = strikes[j], strikes[i] })
	return strikes
}

// kill kills a master, waits for its successor, and a little later adds a replica.
func (s *siege) kill(ctx context.Context, draw *rand.Rand) error {
	victim, _, err := s.choose(ctx, draw)
	if err != nil {
		return err
	}
	var next redistest.Node
	err = s.outage(ctx, killed, func() (err error) {
		if err := s.h.Cluster.Kill(victim.Addr); err != nil {
			return err
		}
		next, err = s.h.Cluster.AwaitSuccessor(ctx, victim)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.h.Sleep(ctx, seed.Between(draw, 0, time.Second)); err != nil {
		return err
	}
	if err := s.h.Cluster.AddReplica(ctx, next); err != nil {
		return err
	}
	if err := s.h.Cluster.Forget(ctx, victim); err != nil {
		return err
	}
	return s.awaitReady(ctx)
}

// freeze freezes a master, for longer than it takes to be replaced or for less.
func (s *siege) freeze(ctx context.Context, draw *rand.Rand) error {
	victim, _, err := s.choose(ctx, draw)
	if err != nil {
		return err
	}
	return s.outage(ctx, frozen, func() error {
		if err := s.h.Cluster.Freeze(ctx, victim.Addr); err != nil {
			return err
		}
		slept := s.h.Sleep(ctx, seed.Between(draw, time.Second, harness.Size(s.h, 15*time.Second, 6*time.Second)))
		return errors.Join(slept, s.h.Cluster.Thaw(victim.Addr), s.awaitReady(ctx))
	})
}

// failOver makes a replica and its master change places.
func (s *siege) failOver(ctx context.Context, draw *rand.Rand) error {
	_, replica, err := s.choose(ctx, draw)
	if err != nil {
		return err
	}
	return s.planned(failedOver, func() error {
		return errors.Join(s.h.Cluster.FailOver(ctx, replica), s.awaitReady(ctx))
	})
}

// reshard moves the slot of each partition to the next master.
func (s *siege) reshard(ctx context.Context, draw *rand.Rand) error {
	client, err := s.h.Cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	for _, p := range draw.Perm(peer.RedisPartitions) {
		slot, err := client.Do(ctx, client.B().ClusterKeyslot().Key(peer.RedisKey(p)).Build()).AsInt64()
		if err != nil {
			return err
		}
		if err := s.planned(moved, func() error { return redistest.Move(ctx, client, int(slot)) }); err != nil {
			return err
		}
		if err := s.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitReady waits until the cluster is whole and all nodes agree on that.
func (s *siege) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.h.Cluster.AwaitReady(ctx, masters)
}

// choose draws a master, and returns it with its replica.
func (s *siege) choose(ctx context.Context, draw *rand.Rand) (master, replica redistest.Node, err error) {
	nodes, err := s.h.Cluster.Nodes(ctx)
	if err != nil {
		return master, replica, err
	}
	all := redistest.Masters(nodes)
	if len(all) != masters {
		return master, replica, fmt.Errorf("%d masters, want %d", len(all), masters)
	}
	master = all[draw.IntN(masters)]
	replica, ok := redistest.ReplicaOf(nodes, master)
	if !ok {
		return master, replica, fmt.Errorf("%s has no replica", master.Addr)
	}
	return master, replica, nil
}

// outage records a fault: how begins it, and it ends when all partitions answer again.
func (s *siege) outage(ctx context.Context, what string, how func() error) error {
	f := audit.Fault{What: what, At: time.Now()}
	if err := how(); err != nil {
		return err
	}
	err := s.h.WaitUntil(ctx, time.Minute, func() (bool, error) { return s.answers(ctx), ctx.Err() })
	f.Until = time.Now()
	s.h.RecordFault(f)
	s.outages = append(s.outages, f)
	s.took[what] = append(s.took[what], f.Until.Sub(f.At))
	s.h.Logf("%s: away for %.1f s", what, f.Until.Sub(f.At).Seconds())
	return err
}

// answers reports whether all partitions answer a client that is new.
func (s *siege) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	p, err := peer.Open(ctx, s.h.System.Name, s.h.DSN(), 1)
	if err != nil {
		return false
	}
	_, err = p.Live(ctx)
	return errors.Join(err, p.Close()) == nil
}

// planned records a change that costs no run: it explains a duplicate only if it has taken so long
// that leases of jobs there could not be extended in time.
func (s *siege) planned(what string, how func() error) error {
	f := audit.Fault{What: what, At: time.Now()}
	err := how()
	took := time.Since(f.At)
	if took > clusterLease/2 {
		f.Until = f.At.Add(took)
	}
	s.h.RecordFault(f)
	s.took[what] = append(s.took[what], took)
	s.h.Logf("%s", what)
	return err
}

// partitionsOf returns the partitions that a master has.
func (s *siege) partitionsOf(ctx context.Context, master redistest.Node) (map[int]bool, error) {
	client, err := s.h.Cluster.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	of := make(map[int]bool)
	for p := range peer.RedisPartitions {
		addr, err := masterOf(ctx, client, peer.RedisKey(p))
		if err != nil {
			return nil, err
		}
		if addr == master.Addr {
			of[p] = true
		}
	}
	return of, nil
}

// masterOf returns the address of the master that has a key.
func masterOf(ctx context.Context, client rueidis.Client, key string) (addr string, err error) {
	slot, err := client.Do(ctx, client.B().ClusterKeyslot().Key(key).Build()).AsInt64()
	if err != nil {
		return "", err
	}
	return redistest.MasterOf(ctx, client, int(slot))
}
