// Hybrid is a shop with two kinds of queues, and one application that does not notice:
//
//	go run ./examples/hybrid
//
// Orders and their jobs are in Postgres, in one transaction. The stream of clicks, which is most of
// the work, is in a Redis Cluster of three masters and three replicas. The program starts both, and
// removes them at the end. Visitors look at things and order some. In the middle one of the masters
// is killed with kill -9; its replica takes over. An audit at the end counts what became of each
// order and of each click. The exit status is 0 only if nothing was lost.
//
// It needs redis-server 7 or later, and Postgres as package postgrestest finds it.
//
// Where to read: shop.go enqueues, worker.go handles, servers.go opens the backends and the router.
// ledger.go and audit.go count.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/errandhq/errand/backend/redis/redistest"
)

// The plan.
const (
	orders         = 300
	viewsPerOrder  = 10
	declineEvery   = 10 // the payment of one order in ten is declined
	visitorsAtOnce = 4
	// thinkTime is how long a visitor looks at a thing.
	thinkTime = 10 * time.Millisecond
	// killAfter is how many clicks have been handled when a master is killed.
	killAfter = orders * viewsPerOrder / 3
	// patience is how long the program waits until it holds the audit all the same. It takes about
	// 20 s, and longer on a busy machine.
	patience = 2 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hybrid:", explain(ctx, err))
		os.Exit(1)
	}
}

// explain returns the error to tell a person instead of err.
func explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx) // after Ctrl-C everything fails
	case errors.Is(err, redistest.ErrNoServer):
		return errors.New("there is no redis-server: install it first, on Debian with apt-get install redis-server")
	}
	return err
}

// run starts the servers, lets the visitors come and a master die, and holds the audit. It stops
// what it has started, however it ends.
func run(ctx context.Context, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := startServers(ctx, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	d := &day{servers: s, ledger: newLedger(), out: out}
	endWork := d.work(ctx)
	err = d.pass(ctx)
	if err := errors.Join(err, endWork()); err != nil {
		return err
	}
	facts, err := d.facts(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	return report(out, facts)
}

// day is what goes on until the audit.
type day struct {
	*servers
	*ledger
	out io.Writer
}

// pass returns when all visitors have left and all jobs have ended, or when patience is over.
func (d *day) pass(ctx context.Context) error {
	shop := &shop{db: d.postgres.DB, jobs: d.jobs, ledger: d.ledger}
	var visiting sync.WaitGroup
	for i := range visitorsAtOnce {
		visiting.Go(func() { shop.visit(ctx, i) })
	}
	err := d.disturb(ctx)
	visiting.Wait()
	if err != nil {
		return err
	}
	return d.await(ctx, "the last job", func() bool { return d.openJobs(ctx) == 0 })
}

// disturb kills a master when the visitors are well under way, and replaces it.
func (d *day) disturb(ctx context.Context) error {
	if err := d.await(ctx, "clicks", func() bool { return d.handledSoFar() >= killAfter }); err != nil {
		return err
	}
	nodes, err := d.cluster.Nodes(ctx)
	if err != nil {
		return err
	}
	master := redistest.Masters(nodes)[0]
	d.noteKill()
	if err := d.cluster.Kill(master.Addr); err != nil {
		return err
	}
	d.say("kill -9 of a master, %s. %s", master.Addr, d.soFar())
	next, err := d.cluster.AwaitSuccessor(ctx, master)
	if err != nil {
		return err
	}
	d.say("%.1f s later: its replica %s is the master now. %s", time.Since(d.killed).Seconds(), next.Addr, d.soFar())
	if err := d.cluster.AddReplica(ctx, next); err != nil {
		return err
	}
	d.noteRecovery()
	d.say("%.1f s later: that has a new replica. %s", d.outage().Seconds(), d.soFar())
	return nil
}

// await waits until done returns true. An interrupt is an error, and the end of patience is not:
// the audit tells what is missing.
func (d *day) await(ctx context.Context, what string, done func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return context.Cause(ctx)
			}
			d.say("waited for %s for too long", what)
			return nil
		}
	}
	return nil
}

func (d *day) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }
