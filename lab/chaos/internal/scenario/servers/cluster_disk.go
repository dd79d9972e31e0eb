package servers

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
	"github.com/errandhq/errand/lab/chaos/internal/server"
)

const clusterDiskWhat = "the disk of a Redis master is full under load, and has room again; that of a replica, which ends, and is replaced; " +
	"that of a master while another one is failed over; "

var clusterDisk = scenario.Scenario{
	Number:   42,
	Name:     "cluster-disk",
	What:     clusterDiskWhat + "durable",
	System:   peer.Redis,
	Disk:     clusterDiskSize,
	Settings: clusterDiskSettings,
	Run:      func(ctx context.Context, h *harness.Harness) error { return fillCluster(ctx, h, true) },
}

var clusterDiskAsync = scenario.Scenario{
	Number:   42,
	Name:     "cluster-disk-async",
	What:     clusterDiskWhat + "asynchronous",
	System:   peer.RedisAsync,
	Long:     true,
	Disk:     clusterDiskSize,
	Settings: clusterDiskSettings,
	Run:      func(ctx context.Context, h *harness.Harness) error { return fillCluster(ctx, h, false) },
}

const clusterDiskSize = 96 << 20

// clusterDiskSettings keep the append-only file short.
var clusterDiskSettings = map[string]string{"auto-aof-rewrite-min-size": "8mb"}

// What fills up.
const (
	masterFull   = "the disk of a master full"
	replicaFull  = "the disk of a replica full"
	failoverFull = "the disk of a master full during another's failover"
)

// flood fills the disks of a cluster.
type flood struct {
	*siege
	ended int    // masters that have ended because of it
	full  []full // of masters while no other one was failed over
}

// full is a time in which a node's disk was full.
type full struct {
	from, until time.Time    // there was no room any more, and there was to be some again
	of          map[int]bool // the partitions of a master
}

func fillCluster(ctx context.Context, h *harness.Harness, durable bool) error {
	crew, err := scenario.Workers(h, clusterLease)
	if err != nil {
		return err
	}
	// It waits for no worker: it must try while a disk is full and little is settled.
	enqueuer, err := h.Enqueuer("enqueuer", child.Enqueue{Batch: 4, Rate: 200})
	if err != nil {
		return err
	}
	f := &flood{siege: newSiege(h)}
	draw := h.Source("strikes")
	if err := f.run(ctx, draw, f.order(draw)); err != nil {
		return err
	}
	book, _, err := f.finish(ctx, durable, crew, enqueuer)
	if err != nil {
		return err
	}
	checkResumed(h, book.Starts, crew.Names(), f.outages[len(f.outages)-1:], clusterResume)
	f.checkErrors(book)
	return f.checkOthers(ctx, book)
}

// order returns the strikes, in an order that the draw decides.
func (f *flood) order(draw *rand.Rand) (strikes []strike) {
	for range harness.Size(f.h, 6, 1) {
		strikes = append(strikes, f.fillMaster)
	}
	for range harness.Size(f.h, 3, 1) {
		strikes = append(strikes, f.fillReplica)
	}
	for range harness.Size(f.h, 3, 0) {
		strikes = append(strikes, f.fillAndFailOver)
	}
	draw.Shuffle(len(strikes), func(i, j int) { strikes[i], strikes[j] = strikes[j], strikes[i] })
	return strikes
}

// fillMaster keeps a master's disk full for a while.
func (f *flood) fillMaster(ctx context.Context, draw *rand.Rand) error {
	master, _, err := f.choose(ctx, draw)
	if err != nil {
		return err
	}
	of, err := f.partitionsOf(ctx, master)
	if err != nil {
		return err
	}
	lasting := seed.Between(draw, 3*time.Second, harness.Size(f.h, 15*time.Second, 4*time.Second))
	return f.outage(ctx, masterFull, func() error {
		was, err := f.fill(ctx, master, func(since time.Time) (bool, error) { return time.Since(since) > lasting, nil })
		was.of = of
		f.full = append(f.full, was)
		return errors.Join(err, f.awaitReady(ctx))
	})
}

// fillReplica keeps a replica's disk full until the replica ends, as replicas do by default. Then
// it starts another one.
func (f *flood) fillReplica(ctx context.Context, draw *rand.Rand) error {
	master, replica, err := f.choose(ctx, draw)
	if err != nil {
		return err
	}
	return f.outage(ctx, replicaFull, func() error {
		if _, err := f.fill(ctx, replica, func(time.Time) (bool, error) { return f.h.Cluster.HasEnded(replica.Addr), nil }); err != nil {
			return err
		}
		return f.replace(ctx, replica, master)
	})
}

// fillAndFailOver keeps a master's disk full while another master and its replica change places. A
// master that cannot write down such a change ends, and its replica takes over: Redis 7.0 can, and
// later versions write a new file.
func (f *flood) fillAndFailOver(ctx context.Context, draw *rand.Rand) error {
	master, _, err := f.choose(ctx, draw)
	if err != nil {
		return err
	}
	_, other, err := f.choose(ctx, draw)
	for err == nil && other.Master == master.ID {
		_, other, err = f.choose(ctx, draw)
	}
	if err != nil {
		return err
	}
	return f.outage(ctx, failoverFull, func() error {
		began := false
		_, err := f.fill(ctx, master, func(since time.Time) (bool, error) {
			if !began {
				began = true
				return false, f.h.Cluster.FailOver(ctx, other)
			}
			return f.h.Cluster.HasEnded(master.Addr) || time.Since(since) > 5*time.Second, nil
		})
		if err != nil {
			return err
		}
		if !f.h.Cluster.HasEnded(master.Addr) {
			return f.awaitReady(ctx)
		}
		f.ended++
		next, err := f.h.Cluster.AwaitSuccessor(ctx, master)
		if err != nil {
			return err
		}
		return f.replace(ctx, master, next)
	})
}

// replace starts a replica of a master in the place of a node that has ended.
func (f *flood) replace(ctx context.Context, ended, master redistest.Node) error {
	return errors.Join(f.h.Cluster.Kill(ended.Addr), f.h.Cluster.AddReplica(ctx, master), f.h.Cluster.Forget(ctx, ended), f.awaitReady(ctx))
}

// fill keeps a node's disk full until a condition is true, which is told since when it has been
// full. Then fill makes room, if the node has not ended and taken its disk with it.
func (f *flood) fill(
	ctx context.Context, node redistest.Node, until func(since time.Time) (bool, error),
) (was full, err error) {
	dir, err := f.h.Cluster.Directory(ctx, node.Addr)
	if err != nil {
		return was, err
	}
	ballast, err := server.NewBallast(dir)
	if err != nil {
		return was, err
	}
	err = f.h.WaitUntil(ctx, time.Minute, func() (bool, error) {
		if _, err := ballast.Grow(); err != nil {
			return false, err
		}
		if was.from.IsZero() {
			was.from = time.Now()
		}
		return until(was.from)
	})
	was.until = time.Now()
	if released := ballast.Release(); !errors.Is(released, fs.ErrNotExist) {
		err = errors.Join(err, released)
	}
	return was, err
}

var (
	namesAOF     = regexp.MustCompile(`MISCONF .*No space left on device`)
	namesCluster = regexp.MustCompile(`too few replicas|context deadline exceeded|i/o timeout|EOF|connection re(fused|set)|closed|CLUSTERDOWN|MOVED|LOADING|UNBLOCKED`)
)

// checkErrors demands that the enqueuer was told why its calls failed.
func (f *flood) checkErrors(book ledger.Book) {
	var unclear []string
	all, named := 0, 0
	for _, n := range book.Notes {
		told, refused := strings.CutPrefix(n.Text, child.Refused)
		if !refused {
			continue
		}
		all++
		switch {
		case namesAOF.MatchString(told):
			named++
		case !namesCluster.MatchString(told):
			unclear = append(unclear, told)
		}
	}
	f.h.Row.Check(named > 0 && len(unclear) == 0, "errors that name neither the disk nor the failover: 0",
		"%s of %d; %d name the disk", harness.FirstFew(unclear), all, named)
	f.h.Row.Note("%d masters with a full disk ended while another one was failed over", f.ended)
}

// checkOthers demands that the other masters' jobs went on, each time that a master's disk was
// full.
func (f *flood) checkOthers(ctx context.Context, book ledger.Book) error {
	q, client, err := openQueue(ctx, f.h, 0)
	if err != nil {
		return err
	}
	defer client.Close()
	partitions, err := partitionsIn(ctx, q)
	if err != nil {
		return err
	}
	all, fewest, lasted := 0, math.MaxInt, time.Duration(0)
	for _, was := range f.full {
		n := was.startsElsewhere(book.Starts, partitions)
		all, fewest = all+n, min(fewest, n)
		lasted += was.until.Sub(was.from)
	}
	f.h.Row.Check(all > 0 && fewest > 0, "starts of jobs in other partitions while a master's disk was full: some",
		"%d, in %.0f s; at least %d each time", all, lasted.Seconds(), fewest)
	return nil
}

// startsElsewhere returns how many runs of jobs in other masters' partitions began meanwhile.
func (f full) startsElsewhere(starts []ledger.Entry, partitions map[int]int) int {
	return scenario.Count(starts, func(s ledger.Entry) bool {
		p, ok := partitions[s.Number]
		return ok && !f.of[p] && !s.At.Before(f.from) && s.At.Before(f.until)
	})
}
