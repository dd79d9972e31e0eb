package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue/driver"
)

const (
	// shortestReconnect and longestReconnect are the pauses before a subscription is made again. The
	// pause doubles while that fails.
	shortestReconnect = 100 * time.Millisecond
	longestReconnect  = time.Second
	// confirmTimeout is how long a server may take to confirm a subscription. The client tries again
	// by itself, and returns no error.
	confirmTimeout = 2 * time.Second
)

// errUnconfirmed is why a subscription is made again that no server has confirmed.
var errUnconfirmed = fmt.Errorf("no server has confirmed a subscription within %v", confirmTimeout)

// Listen implements [driver.Waiter]. It has a subscription for each partition of the queues, one
// for cancelled jobs and one for paused kinds, on connections that the client shares among all of
// them. It goes on if a server refuses one: CheckListen says why.
func (b *Backend) Listen(ctx context.Context, worker string, queues []string, tell func(driver.Signal)) error {
	subscribe := func(channel string) rueidis.Completed { return b.client.B().Subscribe().Channel(channel).Build() }
	subscriptions := []subscription{
		{
			command: func() rueidis.Completed { return subscribe(b.pauses()) },
			receive: func(string) { tell(driver.Signal{Pauses: true}) },
			missed:  driver.Signal{Pauses: true},
		},
		{
			command: func() rueidis.Completed { return subscribe(b.cancels(worker)) },
			receive: func(text string) {
				if id, err := strconv.ParseInt(text, 10, 64); err == nil {
					tell(driver.Signal{Cancels: true, IDs: []int64{id}})
				}
			},
			missed: driver.Signal{Cancels: true},
		},
	}
	for _, at := range b.placesOf(queues, 0) {
		channel := b.tags[at.partition] + "wake:" + at.queue
		subscriptions = append(subscriptions, subscription{
			command: func() rueidis.Completed { return b.client.B().Ssubscribe().Channel(channel).Build() },
			receive: func(string) { b.turns.Hurry(at.queue); tell(driver.Signal{Jobs: true}) },
			missed:  driver.Signal{Jobs: true},
		})
	}
	var all sync.WaitGroup
	for _, s := range subscriptions {
		id := b.unheard.newID(worker)
		s.confirmed = func() { b.unheard.note(id, nil); tell(s.missed) }
		s.failed = func(err error) { b.unheard.note(id, err) }
		all.Go(func() {
			b.subscribe(ctx, s)
			b.unheard.note(id, nil)
		})
	}
	all.Wait()
	return nil
}

// CheckListen implements [driver.Waiter].
func (b *Backend) CheckListen(worker string) error { return b.unheard.of(worker) }

// unheard are the subscriptions that cannot be made, with the reason. The zero value is ready for
// use.
type unheard struct {
	mu      sync.Mutex
	last    int
	reasons map[subscriptionID]error
}

// subscriptionID is one of the subscriptions of a worker.
type subscriptionID struct {
	worker string
	number int
}

func (u *unheard) newID(worker string) subscriptionID {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last++
	return subscriptionID{worker, u.last}
}

// note records why a subscription cannot be made; nil means that it is, or that it has ended.
func (u *unheard) note(id subscriptionID, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil {
		delete(u.reasons, id)
		return
	}
	if u.reasons == nil {
		u.reasons = make(map[subscriptionID]error)
	}
	u.reasons[id] = err
}

// of returns why subscriptions of a worker cannot be made, or nil.
func (u *unheard) of(worker string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var errs failures
	for id, err := range u.reasons {
		if id.worker == worker {
			errs.add(err)
		}
	}
	return errs.err()
}

// subscription is what [Backend.subscribe] is to do.
type subscription struct {
	command   func() rueidis.Completed
	receive   func(text string) // gets each message
	missed    driver.Signal     // what the worker has to look at whenever the server has confirmed it
	confirmed func()            // is called whenever the server has confirmed it
	failed    func(err error)   // is called when it cannot be made
}

// subscribe keeps a subscription until ctx ends. It subscribes again when the connection breaks, or
// when the slot of its channel has moved.
func (b *Backend) subscribe(ctx context.Context, s subscription) {
	pause := shortestReconnect
	for ctx.Err() == nil {
		wasMade, err := b.subscribeOnce(ctx, s)
		switch {
		case ctx.Err() != nil:
			return
		case wasMade:
			pause = shortestReconnect
		case err != nil:
			s.failed(failed("listen", err))
		}
		sleep(ctx, pause)
		pause = min(2*pause, longestReconnect)
	}
}

// subscribeOnce makes a subscription, and returns when its connection breaks. It reports whether
// the server had confirmed it, and returns the error that has ended it.
func (b *Backend) subscribeOnce(ctx context.Context, s subscription) (wasMade bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(confirmTimeout, func() { cancel(errUnconfirmed) })
	defer patience.Stop()
	var isMade atomic.Bool
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(p rueidis.PubSubSubscription) {
		if p.Kind == "subscribe" || p.Kind == "ssubscribe" {
			patience.Stop()
			isMade.Store(true)
			s.confirmed()
		}
	})
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, _ rueidis.CommandClient) error {
		cancel(nil) // else the client tries again, for ever, and tells nobody
		return err
	})
	err = b.client.Receive(hooked, s.command(), func(m rueidis.PubSubMessage) { s.receive(m.Message) })
	if errors.Is(context.Cause(ctx), errUnconfirmed) {
		err = fmt.Errorf("%w: %w", errUnconfirmed, err)
	}
	return isMade.Load(), err
}
