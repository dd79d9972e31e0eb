package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

const partitionWhat = "the network of a Redis Cluster parts, and delivers late or never what it held: the queue's master is alone with some clients, and is replaced; " +
	"with its replica; the replica is alone; no client reaches the master; "

var partition = scenario.Scenario{
	Number: 41,
	Name:   "partition",
	What:   partitionWhat + "durable",
	System: peer.Redis,
	Query:  "spread=1",
	Splits: true,
	Run:    func(ctx context.Context, h *harness.Harness) error { return partCluster(ctx, h, true) },
}

var partitionAsync = scenario.Scenario{
	Number: 41,
	Name:   "partition-async",
	What:   partitionWhat + "asynchronous",
	System: peer.RedisAsync,
	Query:  "spread=1",
	Splits: true,
	Run:    func(ctx context.Context, h *harness.Harness) error { return partCluster(ctx, h, false) },
}

var partitionReplicas = scenario.Scenario{
	Number:   41,
	Name:     "partition-replicas",
	What:     partitionWhat + "asynchronous, with min-replicas-to-write 1 and min-replicas-max-lag 1",
	System:   peer.RedisAsync,
	Long:     true,
	Query:    "spread=1",
	Splits:   true,
	Settings: map[string]string{"min-replicas-to-write": "1", "min-replicas-max-lag": "1"},
	Run:      func(ctx context.Context, h *harness.Harness) error { return partCluster(ctx, h, false) },
}

// What the network does.
const (
	isolated        = "the master alone"
	isolatedBoth    = "the master and its replica alone"
	isolatedReplica = "the replica alone"
	cutOff          = "no client reaches the master"
)

const (
	// nearHost is the host of the clients that stay on the side of an isolated master.
	nearHost = "127.1.1.1"
	// near begins the names of their processes, and nearFirst is the number of their first job.
	near      = "near."
	nearFirst = 20_000_000
)

// rift parts the network of a cluster whose jobs are all in one partition.
type rift struct {
	*siege
	key    string        // of the partition
	parted []audit.Fault // from when the network had parted until it was healed
}

func partCluster(ctx context.Context, h *harness.Harness, durable bool) error {
	h.Route = func(name, dsn string) (string, error) {
		if strings.HasPrefix(name, near) {
			dsn += "&from=" + nearHost
		}
		return dsn, nil
	}
	crew, err := scenario.Workers(h, clusterLease)
	if err != nil {
		return err
	}
	nearWorker, err := h.Worker(near+"worker", scenario.LoadWork(clusterLease))
	if err != nil {
		return err
	}
	enqueuers, err := partedEnqueuers(h)
	if err != nil {
		return err
	}
	r := &rift{siege: newSiege(h), key: peer.RedisQueueKey()}
	r.calm, r.mostLost = 3*time.Second, 0
	draw := h.Source("strikes")
	if err := r.run(ctx, draw, r.order(draw)); err != nil {
		return err
	}
	book, f, err := r.finish(ctx, durable, crew, enqueuers...)
	if err != nil {
		return err
	}
	checkResumed(h, book.Starts, append(crew.Names(), nearWorker.Name), r.outages[len(r.outages)-1:], clusterResume)
	r.checkNear(book, durable)
	if !durable {
		r.checkLostNear(book, f)
	}
	return scenario.Stop(nearWorker)
}

// mostAlone is how long an isolated master may acknowledge jobs: the node timeout of 2 s, half of
// that until it asks the other nodes again, and a little more.
const mostAlone = 3500 * time.Millisecond

// checkLostNear demands that an isolated master soon stops to acknowledge jobs that are then lost.
func (r *rift) checkLostNear(book ledger.Book, f audit.Finding) {
	var latest time.Duration
	for _, m := range f.Missed {
		at := book.Acked[m.Number]
		for _, o := range r.outages {
			if o.What == isolated && at.After(o.At) && at.Before(o.Until) {
				latest = max(latest, at.Sub(o.At))
			}
		}
	}
	r.h.Row.CheckTime(latest <= mostAlone, fmt.Sprintf("lost jobs were acknowledged at most %v after the network had parted", mostAlone),
		"%.1f s; %d of %d are lost", latest.Seconds(), len(f.Missed), f.Acked)
}

// partedEnqueuers starts two enqueuers far from an isolated master, and one near it. They do not
// wait for the workers: acknowledged jobs that are lost would stop them for ever.
func partedEnqueuers(h *harness.Harness) (enqueuers []*child.Process, err error) {
	for name, e := range map[string]child.Enqueue{
		"enqueuer.1":      {First: 0, Batch: 10, Rate: 60},
		"enqueuer.2":      {First: 10_000_000, Batch: 10, Rate: 60},
		near + "enqueuer": {First: nearFirst, Batch: 10, Rate: 150},
	} {
		p, err := h.Enqueuer(name, e)
		if err != nil {
			return nil, err
		}
		enqueuers = append(enqueuers, p)
	}
	return enqueuers, nil
}

// order returns the strikes, in an order that the draw decides.
func (r *rift) order(draw *rand.Rand) (strikes []strike) {
	for range harness.Size(r.h, 6, 1) {
		strikes = append(strikes, r.isolateMaster)
	}
	for range harness.Size(r.h, 2, 0) {
		strikes = append(strikes, r.cutClients, r.isolateBoth, r.isolateReplica)
	}
	draw.Shuffle(len(strikes), func(i, j int) { strikes[i], strikes[j] = strikes[j], strikes[i] })
	return strikes
}

// isolateMaster leaves the master alone with the near clients until the others have replaced it,
// and for a while more.
func (r *rift) isolateMaster(ctx context.Context, draw *rand.Rand) error {
	master, _, err := r.ends(ctx)
	if err != nil {
		return err
	}
	return r.part(ctx, draw, isolated, func() error { return r.h.Cluster.Isolate(master.Addr, nearHost) }, func() error {
		_, err := r.h.Cluster.AwaitSuccessor(ctx, master)
		return errors.Join(err, r.h.Sleep(ctx, seed.Between(draw, 0, harness.Size(r.h, 5*time.Second, time.Second))))
	})
}

// isolateBoth leaves the master and its replica alone with the near clients. Nobody replaces it.
func (r *rift) isolateBoth(ctx context.Context, draw *rand.Rand) error {
	master, replica, err := r.ends(ctx)
	if err != nil {
		return err
	}
	return r.part(ctx, draw, isolatedBoth, func() error { return r.h.Cluster.Isolate(master.Addr, replica.Addr, nearHost) }, r.wait(ctx, draw))
}

// isolateReplica leaves the replica alone.
func (r *rift) isolateReplica(ctx context.Context, draw *rand.Rand) error {
	_, replica, err := r.ends(ctx)
	if err != nil {
		return err
	}
	return r.part(ctx, draw, isolatedReplica, func() error { return r.h.Cluster.Isolate(replica.Addr) }, r.wait(ctx, draw))
}

// cutClients lets no client reach the master. The other nodes do.
func (r *rift) cutClients(ctx context.Context, draw *rand.Rand) error {
	master, _, err := r.ends(ctx)
	if err != nil {
		return err
	}
	return r.part(ctx, draw, cutOff, func() error { return r.h.Cluster.CutClients(master.Addr) }, r.wait(ctx, draw))
}

// wait waits for longer than the node timeout.
func (r *rift) wait(ctx context.Context, draw *rand.Rand) func() error {
	return func() error {
		return r.h.Sleep(ctx, seed.Between(draw, 4*time.Second, harness.Size(r.h, 9*time.Second, 5*time.Second)))
	}
}

// part parts the network, waits, and heals it: what was held arrives, or its connections end.
func (r *rift) part(ctx context.Context, draw *rand.Rand, what string, begin, wait func() error) error {
	reset := draw.IntN(2) == 0
	return r.outage(ctx, what, func() error {
		if err := begin(); err != nil {
			return err
		}
		parted := audit.Fault{What: what, At: time.Now()}
		waited := wait()
		parted.Until = time.Now()
		r.parted = append(r.parted, parted)
		return errors.Join(waited, r.h.Cluster.Heal(reset), r.awaitReady(ctx))
	})
}

// ends returns the master of the queue's partition, and its replica.
func (r *rift) ends(ctx context.Context) (master, replica redistest.Node, err error) {
	client, err := r.h.Cluster.Client()
	if err != nil {
		return master, replica, err
	}
	defer client.Close()
	addr, err := masterOf(ctx, client, r.key)
	if err != nil {
		return master, replica, err
	}
	nodes, err := r.h.Cluster.Nodes(ctx)
	if err != nil {
		return master, replica, err
	}
	for _, master = range redistest.Masters(nodes) {
		if replica, ok := redistest.ReplicaOf(nodes, master); ok && master.Addr == addr {
			return master, replica, nil
		}
	}
	return master, replica, fmt.Errorf("%s has no replica", addr)
}

// checkNear demands that the near enqueuer has called masters that were alone, and counts what it
// was told before the network was healed.
func (r *rift) checkNear(book ledger.Book, durable bool) {
	acked, failed := r.toldAlone(book)
	tried := acked
	if durable {
		tried = failed
	}
	r.h.Row.Check(tried > 0, "jobs that the clients on its side enqueued in a master that was alone: some", "%d acknowledged, and %d calls that failed", acked, failed)
}

// toldAlone returns how many jobs of the near enqueuer's were acknowledged while a master was
// alone, and how many of its calls failed.
func (r *rift) toldAlone(book ledger.Book) (acked, failed int) {
	during := func(at time.Time) bool {
		return slices.ContainsFunc(r.parted, func(p audit.Fault) bool {
			return p.What == isolated && !at.Before(p.At) && at.Before(p.Until)
		})
	}
	for n, at := range book.Acked {
		if n >= nearFirst && during(at) {
			acked++
		}
	}
	for _, n := range book.Notes {
		if n.Number >= nearFirst && strings.HasPrefix(n.Text, child.Refused) && during(n.At) {
			failed++
		}
	}
	return acked, failed
}
