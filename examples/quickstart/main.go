// Quickstart is a shop that runs on errand, and a bad day in its life:
//
//	go run ./examples/quickstart
//
// Its database is a SQLite file, so nothing has to be installed; DATABASE_URL can name another one
// (see package place). Customers place 2,000 orders over HTTP. Each order is written in one
// transaction with two jobs, a confirmation and a webhook; for every tenth order the payment is
// declined, and all of it is rolled back. Two worker processes run the jobs. The receiver of the
// webhooks fails one request in ten and is down for two seconds, and one of the workers is killed
// with kill -9. At the end an audit counts the results. The exit status is 0 only if nothing was
// lost.
//
// Where to read: shop.go enqueues, worker.go handles. customers.go, receiver.go and crew.go act out
// the bad day, audit.go adds it up.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/errandhq/errand/examples/internal/place"
)

// The day's plan.
const (
	ordersToPlace = 2000
	declineEvery  = 10  // the payment of one order in ten is declined
	failEvery     = 10  // the receiver fails one request in ten
	killAfter     = 450 // webhooks delivered before a worker is killed
	downAfter     = 900 // webhooks delivered before the receiver goes down
	downFor       = 2 * time.Second

	// patience is how long the day may last until the audit is held all the same. It takes 5 to 10
	// s, and longer where the machine is busy or a SQLite file is on a slow disk, which has some
	// 5,000 commits to write.
	patience = 2 * time.Minute
)

func main() {
	var err error
	if len(os.Args) == 4 && os.Args[1] == "worker" {
		err = workerMain(os.Args[2], os.Args[3])
	} else {
		err = shopMain()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// shopMain is the first process. Ctrl-C ends it in good order, a second one at once.
func shopMain() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer context.AfterFunc(ctx, stop)()
	return run(ctx, newProgress(os.Stdout))
}

// run sets the stage, lets the day pass, and holds the audit. Whatever it starts
// it stops, in reverse order, however it ends.
func run(ctx context.Context, p *progress) (err error) {
	database, err := place.Find(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Remove()) }()
	p.event("%s", database.Description)

	shop, err := openShop(ctx, database.URL)
	if err != nil {
		return err
	}
	defer shop.close()
	receiver, err := openReceiver()
	if err != nil {
		return err
	}
	defer receiver.close()
	workers, err := hire(database.URL, receiver.url, "worker-1", "worker-2")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workers.dismiss()) }()
	p.event("shop at %s, webhooks go to %s, %s", shop.url, receiver.url, workers)

	d := &day{shop: shop, receiver: receiver, workers: workers, customers: newCustomers(shop.url), progress: p, began: time.Now()}
	if err := d.pass(ctx); err != nil {
		return err
	}
	if err := workers.dismiss(); err != nil {
		return err
	}
	facts, err := d.facts(ctx)
	if err != nil {
		return err
	}
	return report(p.out, audit(facts), facts.took)
}

// day is what goes on between opening and the audit.
type day struct {
	shop      *shop
	receiver  *receiver
	workers   *crew
	customers *customers
	progress  *progress
	began     time.Time
	held      tally // orders whose webhooks the killed worker held
}

// pass returns when all orders are placed and all their jobs have ended.
func (d *day) pass(ctx context.Context) error {
	defer d.progress.end()
	var ordering sync.WaitGroup
	defer ordering.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ordered := make(chan error, 1)
	ordering.Go(func() { ordered <- d.customers.placeAll(ctx) })

	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	open := ordersToPlace // orders, and then jobs
	for open > 0 {
		var err error
		select {
		case err = <-ordered:
			ordered = nil
		case worker := <-d.receiver.holding:
			err = d.kill(ctx, worker)
		case err = <-d.workers.quit:
		case <-tick.C:
			d.show()
			if ordered == nil {
				open, err = d.shop.openJobs(ctx)
			}
		case <-late:
			d.progress.event("not done after %v", patience)
			return nil // the audit tells what is missing
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return cmp.Or(context.Cause(ctx), err) // after Ctrl-C everything fails
		}
	}
	return nil
}

// kill ends a worker as kill -9 does. The receiver has a request of this worker
// and does not answer it, so there is a job in flight for sure. The database
// tells what else the worker held: that may be delivered twice, and nothing else.
func (d *day) kill(ctx context.Context, worker string) (err error) {
	if err := d.workers.kill(worker); err != nil {
		return err
	}
	d.held, err = d.shop.heldBy(ctx, worker)
	d.progress.event("%s was killed while it held %d webhooks", worker, len(d.held))
	return err
}
