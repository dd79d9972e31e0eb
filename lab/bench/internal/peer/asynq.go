package peer

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"
)

type asynqPeer struct {
	redis     asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
}

const asynqQueue = "default"

func openAsynq(_ context.Context, c Config) (Peer, error) {
	redis := asynq.RedisClientOpt{Addr: c.Redis}
	return &asynqPeer{redis: redis, client: asynq.NewClient(redis), inspector: asynq.NewInspector(redis)}, nil
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
	server := asynq.NewServer(a.redis, asynq.Config{Concurrency: 100, LogLevel: asynq.ErrorLevel})
	mux := asynq.NewServeMux()
	mux.HandleFunc(kind, func(_ context.Context, task *asynq.Task) error {
		var o order
		if err := json.Unmarshal(task.Payload(), &o); err != nil {
			return err
		}
		handle(o.Order)
		return nil
	})
	if err := server.Start(mux); err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
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
