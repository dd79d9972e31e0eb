package peer

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/redis/rueidis"
)

// inBullMQ is a queue of BullMQ, whose program is bullmq.js. Here it only loads jobs and counts
// them.
type inBullMQ struct {
	config Config
	client rueidis.Client
}

func openBullMQ(_ context.Context, c Config) (Peer, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Redis, DisableCache: true, ForceSingleClient: len(c.Redis) == 1})
	if err != nil {
		return nil, err
	}
	return &inBullMQ{c, client}, nil
}

// Install has nothing to make: Redis was emptied.
func (*inBullMQ) Install(context.Context) error { return nil }

// Enqueue starts a process that enqueues.
func (m *inBullMQ) Enqueue(ctx context.Context, first, n int) error {
	spec, err := json.Marshal(map[string]any{"part": "load", "redis": m.config.Redis, "first": first, "jobs": n})
	if err != nil {
		return err
	}
	return bullMQ.run(ctx, m.config.Node, string(spec))
}

var errInNode = errors.New("a program for Node does this for BullMQ")

// EnqueueOne fails: a program for Node does this.
func (*inBullMQ) EnqueueOne(context.Context, int) error { return errInNode }

// Work fails: a program for Node does this.
func (*inBullMQ) Work(context.Context, func(int)) error { return errInNode }

func (m *inBullMQ) Unsettled(ctx context.Context) (bool, error) {
	c, err := m.Census(ctx)
	return c.Unsettled > 0, err
}

// Census counts the jobs in the order in which they go through the states, so that it misses none
// that moves meanwhile.
func (m *inBullMQ) Census(ctx context.Context) (c Census, err error) {
	states := []struct {
		name, command string
		jobs          *int
	}{
		{"delayed", "ZCARD", &c.Unsettled},
		{"prioritized", "ZCARD", &c.Unsettled},
		{"wait", "LLEN", &c.Unsettled},
		{"active", "LLEN", &c.Unsettled},
		{"completed", "ZCARD", &c.Completed},
		{"failed", "ZCARD", &c.Failed},
	}
	var commands rueidis.Commands
	for _, s := range states {
		commands = append(commands, m.client.B().Arbitrary(s.command).Keys("{bench}:jobs:"+s.name).Build())
	}
	for i, r := range m.client.DoMulti(ctx, commands...) {
		n, err := r.AsInt64()
		if err != nil {
			return c, err
		}
		*states[i].jobs += int(n)
	}
	return c, nil
}

func (m *inBullMQ) Close() error {
	m.client.Close()
	return nil
}
