package redis_test

import (
	"context"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

type click struct{ Page string }

// A worker counts clicks. Their queue is in Redis, because they belong to no transaction.
func Example() {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:      []string{"redis.example:6379"}, // of a cluster, some of the nodes
		DisableCache:     true,
		ConnWriteTimeout: 3 * time.Second, // after which a server that hangs is given up
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	q, err := redis.New(ctx, client, redis.Options{})
	if err != nil {
		log.Fatal(err)
	}

	clicks := queue.NewKind[click]("click")
	if err := q.Enqueue(ctx, nil, clicks.New(click{Page: "/prices"})); err != nil {
		log.Fatal(err)
	}
	mux := queue.NewMux()
	clicks.Handle(mux, func(_ context.Context, _ *queue.Job, c click) error {
		log.Println("a click on", c.Page)
		return nil
	})
	w := engine.Worker{Backend: q, Handler: mux}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// A program finds the master that Sentinels watch.
func Example_sentinel() {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:      []string{"one.example:26379", "two.example:26379", "three.example:26379"},
		Sentinel:         rueidis.SentinelOption{MasterSet: "main", TopologyRefreshInterval: 5 * time.Second},
		DisableCache:     true,
		ConnWriteTimeout: 3 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if _, err := redis.New(context.Background(), client, redis.Options{}); err != nil {
		log.Fatal(err)
	}
}
