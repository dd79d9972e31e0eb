package peer

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/queue"
)

// inRedis is errand on a Redis, which takes no part in transactions.
type inRedis struct {
	errand
	client  rueidis.Client
	backend *redis.Backend
}

func openErrandRedis(ctx context.Context, c Config) (Peer, error) {
	return newErrandRedis(ctx, c, redis.Options{})
}

// openErrandRedisCluster spreads the queue, so that all masters work.
func openErrandRedisCluster(ctx context.Context, c Config) (Peer, error) {
	return newErrandRedis(ctx, c, redis.Options{Spread: 8})
}

func newErrandRedis(ctx context.Context, c Config, o redis.Options) (Peer, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Redis, DisableCache: true, ForceSingleClient: len(c.Redis) == 1})
	if err != nil {
		return nil, err
	}
	o.Retention.Completed = -1
	b, err := redis.New(ctx, client, o)
	if err != nil {
		client.Close()
		return nil, err
	}
	return &inRedis{errand{config: c, queue: b}, client, b}, nil
}

// Install has nothing to make: the first New has made it.
func (r *inRedis) Install(context.Context) error { return nil }

func (r *inRedis) Unsettled(ctx context.Context) (bool, error) {
	c, err := r.Census(ctx)
	return c.Unsettled > 0, err
}

// Census counts by the counts that the server keeps.
func (r *inRedis) Census(ctx context.Context) (c Census, err error) {
	counts, err := r.backend.Counts(ctx)
	for _, of := range counts {
		switch of.Status {
		case queue.StatusPending, queue.StatusRunning:
			c.Unsettled += int(of.Jobs)
		case queue.StatusCompleted:
			c.Completed += int(of.Jobs)
		default:
			c.Failed += int(of.Jobs)
		}
	}
	return c, err
}

func (r *inRedis) Close() error {
	r.client.Close()
	return nil
}
