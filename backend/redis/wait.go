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
	for _, at := range b.placesOf(queues, 0) {
		partitions, args = append(partitions, at.partition), append(args, []string{at.queue})
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
	return b.turns.bound(queues, next), nil
}

// reconnect is the pause before a broken subscription is made again.
const reconnect = 100 * time.Millisecond

// Listen implements [queue.Waiter]. It has a subscription for each partition of the queues, on
// connections that the client shares among all of them. Its error is that of a user who may not
// subscribe.
func (b *Backend) Listen(ctx context.Context, _ string, queues []string, wake func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, at := range b.placesOf(queues, 0) {
		channel := b.tags[at.partition] + "wake:" + at.queue
		all.Go(func() {
			if err := b.subscribe(ctx, func() rueidis.Completed { return b.client.B().Ssubscribe().Channel(channel).Build() }, func(string) { b.turns.hurry(at.queue); wake() }, wake); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); isDenied(err) {
		return err
	}
	return nil
}

// subscribe calls receive with each message of a subscription, and connected whenever the server
// has confirmed it, until ctx ends. It subscribes again when the connection breaks, or when the
// slot of its channel has moved. It returns an error if the user may not subscribe.
func (b *Backend) subscribe(ctx context.Context, command func() rueidis.Completed, receive func(text string), connected func()) error {
	confirmed := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" || s.Kind == "ssubscribe" {
			connected()
		}
	})
	for ctx.Err() == nil {
		// Any other error says only that the connection is broken, which the next calls of others report.
		err := b.client.Receive(confirmed, command(), func(m rueidis.PubSubMessage) { receive(m.Message) })
		if isDenied(err) {
			return failed("subscribe", err)
		}
		sleep(ctx, reconnect)
	}
	return nil
}
