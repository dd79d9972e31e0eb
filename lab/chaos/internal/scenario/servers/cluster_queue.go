package servers

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/queue"
)

// openQueue opens errand on the cluster, for this process. The caller closes the client.
func openQueue(ctx context.Context, h *harness.Harness, durable int) (*redis.Backend, rueidis.Client, error) {
	options, err := peer.RedisOptions(h.DSN(), durable)
	if err != nil {
		return nil, nil, err
	}
	client, err := peer.RedisClient(h.DSN())
	if err != nil {
		return nil, nil, err
	}
	q, err := redis.New(ctx, client, options)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return q, client, nil
}

// partitionsIn returns in which partition each job is, by number.
func partitionsIn(ctx context.Context, q *redis.Backend) (map[int]int, error) {
	of := make(map[int]int)
	for f := (queue.Filter{Queue: queue.DefaultQueue, Limit: 200}); ; {
		page, next, err := q.Jobs(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page {
			number, err := peer.NumberOf(&page[i].Job)
			if err != nil {
				return nil, err
			}
			of[number] = peer.RedisPartition(page[i].ID)
		}
		if f.Before = next; next == 0 {
			return of, nil
		}
	}
}
