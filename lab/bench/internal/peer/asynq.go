package peer

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"
)

type asynqPeer struct {
	redis     asynq.RedisConnOpt
	client    *asynq.Client
	inspector *asynq.Inspector
	servers   int // of Work
	config    asynq.Config
}

const asynqQueue = "default"

func openAsynq(_ context.Context, c Config) (Peer, error) {
	return newAsynq(c, 1, asynq.Config{Concurrency: 100}), nil
}

// openAsynqBest opens asynq with the settings that drain fastest at a Concurrency of 100 in all. A
// server fetches one task at a time, so several fetch more. It asks an empty queue again each
// millisecond, and not each second.
func openAsynqBest(_ context.Context, c Config) (Peer, error) {
	return newAsynq(c, 4, asynq.Config{Concurrency: 25, TaskCheckInterval: time.Millisecond}), nil
}

func newAsynq(c Config, servers int, config asynq.Config) *asynqPeer {
	var redis asynq.RedisConnOpt = asynq.RedisClientOpt{Addr: c.Redis[0]}
	if len(c.Redis) > 1 {
		redis = asynq.RedisClusterClientOpt{Addrs: c.Redis}
	}
	config.LogLevel = asynq.ErrorLevel
	return &asynqPeer{redis, asynq.NewClient(redis), asynq.NewInspector(redis), servers, config}
}

// Install has nothing to make: Redis was emptied.
func (a *asynqPeer) Install(context.Context) error { return nil }

// Enqueue makes one call a job, from 64 goroutines: asynq has no batches.
func (a *asynqPeer) Enqueue(ctx context.Context, first, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for i := range n {
		group.Go(func() error { return a.EnqueueOne(ctx, first+i) })
	}
	return group.Wait()
}

func (a *asynqPeer) EnqueueOne(ctx context.Context, number int) error {
	payload, err := json.Marshal(newOrder(number))
	if err != nil {
		return err
	}
	_, err = a.client.EnqueueContext(ctx, asynq.NewTask(kind, payload))
	return err
}

func (a *asynqPeer) Work(ctx context.Context, handle func(int)) error {
	mux := asynq.NewServeMux()
	mux.HandleFunc(kind, func(_ context.Context, task *asynq.Task) error {
		var o order
		if err := json.Unmarshal(task.Payload(), &o); err != nil {
			return err
		}
		handle(o.Order)
		return nil
	})
	var down sync.WaitGroup
	defer down.Wait()
	for range a.servers {
		server := asynq.NewServer(a.redis, a.config)
		if err := server.Start(mux); err != nil {
			return err
		}
		defer down.Go(server.Shutdown)
	}
	<-ctx.Done()
	return nil
}

func (a *asynqPeer) Unsettled(ctx context.Context) (bool, error) {
	c, err := a.Census(ctx)
	return c.Unsettled > 0, err
}

func (a *asynqPeer) Census(context.Context) (Census, error) {
	info, err := a.inspector.GetQueueInfo(asynqQueue)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return Census{}, nil
	}
	if err != nil {
		return Census{}, err
	}
	return Census{
		Unsettled: info.Pending + info.Active + info.Scheduled + info.Retry,
		Completed: info.ProcessedTotal - info.FailedTotal,
		Failed:    info.FailedTotal,
	}, nil
}

func (a *asynqPeer) Close() error { return errors.Join(a.client.Close(), a.inspector.Close()) }
