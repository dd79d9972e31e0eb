package redis

import (
	"context"

	"github.com/errandhq/errand/queue"
)

// Hold makes a pending job held.
func Hold(ctx context.Context, b *Backend, id int64) error {
	_, err := b.act(ctx, nil, action{name: "hold", which: queue.Selection{IDs: []int64{id}}}, queue.StatusPending)
	return err
}

// SetDurable changes Options.Durable.
func (b *Backend) SetDurable(replicas int) { b.opts.Durable = replicas }

// NamespaceOf returns the namespace of b.
func NamespaceOf(b *Backend) string { return b.opts.Namespace }

// FirstOf returns the first partition of a queue.
func FirstOf(b *Backend, queue string) int { return b.firstOf(queue) }

// TagsOf returns what the keys of a queue's partitions begin with.
func TagsOf(b *Backend, queue string) (tags []string) {
	for i := range b.opts.Spread {
		tags = append(tags, b.tags[b.partition(queue, i)])
	}
	return tags
}

// ForgetTick makes b ask for the next tick.
func ForgetTick(b *Backend) { b.ticks.Expire() }

// InfoFields returns the fields of a text of INFO.
func InfoFields(text string) map[string]string { return infoFields(text) }

// SeeClock makes b take at, in microseconds since 1970, for the clock of the first partition's
// server.
func SeeClock(b *Backend, at int64) { b.clocks[0].Note(b.clocks[0].Begin(), at) }
