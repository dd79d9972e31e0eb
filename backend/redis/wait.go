package redis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Sleep implements [queue.Waiter].
func (b *Backend) Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, failed("sleep", err)
	}
	var partitions []int
	var args [][]string
	for _, name := range queues {
		for i := range b.opts.Spread {
			partitions, args = append(partitions, b.partition(name, i)), append(args, []string{name})
		}
	}
	answers, err := messages(b.callAll(ctx, "sleep", partitions, args))
	if err != nil {
		return 0, failed("sleep", err)
	}
	next = -1
	for i := range answers {
		us, err := answers[i].AsInt64()
		if err != nil {
			return 0, failed("sleep", err)
		}
		if d := time.Duration(us) * time.Microsecond; us >= 0 && (next < 0 || d < next) {
			next = d
		}
	}
	return next, nil
}

// reconnect is the pause before a broken subscription is made again.
const reconnect = 100 * time.Millisecond

// Listen implements [queue.Waiter]. It has a subscription for each partition of the queues, on
// connections that the client shares among all of them.
func (b *Backend) Listen(ctx context.Context, _ string, queues []string, wake func()) error {
	var all sync.WaitGroup
	for _, name := range queues {
		for i := range b.opts.Spread {
			channel := b.tags[b.partition(name, i)] + "wake:" + name
			all.Go(func() {
				b.subscribe(ctx, func() rueidis.Completed { return b.client.B().Ssubscribe().Channel(channel).Build() }, func(string) { wake() }, wake)
			})
		}
	}
	all.Wait()
	return nil
}

// subscribe calls receive with each message of a subscription, and connected whenever the server has
// confirmed it, until ctx ends. It subscribes again when the connection breaks, or when the slot of
// its channel has moved.
func (b *Backend) subscribe(ctx context.Context, command func() rueidis.Completed, receive func(text string), connected func()) {
	confirmed := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" || s.Kind == "ssubscribe" {
			connected()
		}
	})
	for ctx.Err() == nil {
		// Its error says only that the connection is broken, which the next calls of others report.
		_ = b.client.Receive(confirmed, command(), func(m rueidis.PubSubMessage) { receive(m.Message) })
		select {
		case <-ctx.Done():
		case <-time.After(reconnect):
		}
	}
}
