// Flow is a service whose tenants share a pool of workers, and what keeps them out of each other's
// way:
//
//	go run ./examples/flow
//	go run ./examples/flow -svg flow.svg   keeps the picture
//
// Each of 200 tenants sends webhooks, two at once and ten a second at most. One of them sends
// 50,000 at the start. Accounts get their ledger entries one by one and in order, though one entry
// in twenty fails at first. A schedule ticks every second. In the middle all webhooks are paused
// for a while, and then the flood is cancelled. The program draws how many webhooks ran at each
// moment, and ends with an audit of what the handlers and the database have seen: no limit and no
// rate was exceeded, no entry came out of order, no tick was missed and no job is left. It prints
// how long the other tenants' webhooks waited. The exit status is 1 if the audit finds a mistake.
//
// Where to read: service.go has the kinds, the rules and the handlers; main.go says what happens
// when; audit.go checks it; receiver.go, tally.go and chart.go are props.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/errandhq/errand/examples/internal/place"
	"github.com/errandhq/errand/queue"
)

// What happens when, from the start.
const (
	pauseAt  = 3 * time.Second
	resumeAt = 4500 * time.Millisecond
	cancelAt = 7 * time.Second
	sendFor  = 9 * time.Second // the other tenants send webhooks, and accounts get entries
	patience = 90 * time.Second
)

func main() {
	svg := flag.String("svg", filepath.Join(os.TempDir(), "errand-flow.svg"), "where to write the picture")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := find(ctx, *svg); err != nil {
		fmt.Fprintln(os.Stderr, "flow:", err)
		os.Exit(1)
	}
}

// find runs the program on the database that it finds.
func find(ctx context.Context, svg string) (err error) {
	database, err := place.Find(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Remove()) }()
	fmt.Println(database.Description)
	return run(ctx, database.URL, svg)
}

// run opens the service, acts the plan out, draws the picture and holds the audit.
func run(ctx context.Context, databaseURL, svg string) error {
	receiver, err := openReceiver()
	if err != nil {
		return err
	}
	defer receiver.close()
	s, err := openService(ctx, databaseURL, receiver.url)
	if err != nil {
		return err
	}
	defer s.close()

	p := &plan{service: s, began: time.Now()}
	if err := s.whileWorking(ctx, p.act); err != nil {
		return err
	}
	facts, err := p.facts(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(svg, draw(p, facts), 0o644); err != nil {
		return err
	}
	fmt.Println("picture:", svg)
	return report(os.Stdout, audit(facts))
}

// plan is what happens, and when it did.
type plan struct {
	service *service
	began   time.Time

	paused, resumed, cancelled time.Time // after the call; for resumed, before it
	atCancel                   int       // how many jobs Cancel cancelled, or asked to end
}

// act returns when all jobs have ended.
func (p *plan) act(ctx context.Context) error {
	if err := p.service.flood(ctx); err != nil {
		return err
	}
	p.began = time.Now()
	sent := make(chan error, 1)
	go func() { sent <- p.service.send(ctx, sendFor) }()

	if err := p.wait(ctx, pauseAt); err != nil {
		return err
	}
	paused, err := p.service.pauseWebhooks(ctx)
	if err != nil {
		return err
	}
	p.paused = paused
	p.say("webhooks paused")

	if err := p.wait(ctx, resumeAt); err != nil {
		return err
	}
	p.resumed = time.Now()
	if err := p.service.resumeWebhooks(ctx); err != nil {
		return err
	}
	p.say("webhooks resumed")

	if err := p.wait(ctx, cancelAt); err != nil {
		return err
	}
	n, err := p.service.cancelFlood(ctx)
	if err != nil {
		return err
	}
	p.cancelled, p.atCancel = time.Now(), n
	p.say("%d jobs of %s cancelled", n, floodTenant)

	if err := <-sent; err != nil {
		return err
	}
	p.say("all webhooks and entries are enqueued")
	return p.awaitEnd(ctx)
}

func (p *plan) say(format string, args ...any) {
	fmt.Printf("%4.1fs  "+format+"\n", append([]any{time.Since(p.began).Seconds()}, args...)...)
}

// wait waits until the plan is so old.
func (p *plan) wait(ctx context.Context, until time.Duration) error {
	select {
	case <-time.After(time.Until(p.began.Add(until))):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// awaitEnd stops the schedule and waits until no job is pending or running.
func (p *plan) awaitEnd(ctx context.Context) error {
	if err := p.service.stopSchedule(ctx); err != nil {
		return err
	}
	for time.Since(p.began) < patience {
		counts, err := p.service.inspector().Counts(ctx)
		if err != nil {
			return err
		}
		open := 0
		for _, c := range counts {
			if c.Status == queue.StatusPending || c.Status == queue.StatusRunning {
				open += int(c.Jobs)
			}
		}
		if open == 0 {
			return nil
		}
		if err := p.wait(ctx, time.Since(p.began)+100*time.Millisecond); err != nil {
			return err
		}
	}
	p.say("not done after %v", patience)
	return nil // the audit tells what is missing
}
