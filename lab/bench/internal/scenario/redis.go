package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

const (
	errandRedis  = "errand-redis"
	redisCluster = "errand-redis-cluster"

	redisDrain   = "drain"
	redisBatches = "enqueue 5,000 a call"
	redisOne     = "enqueue from 1 goroutine"
	redisMany    = "enqueue from 16 goroutines"
	redisTakes   = "claim and settle one, 4 goroutines"
	redisWake    = "wake-up at 100/s"

	redisDrainJobs = 100_000
	// redisTaken is more jobs than are taken in singlesTime.
	redisTaken     = 40_000
	redisTakers    = 4
	redisWakeRate  = 100
	redisWakeTime  = 4 * time.Second
	redisBatchJobs = 50_000
)

var onRedis = Scenario{
	Name:  "redis",
	Title: "jobs in Redis, on one node and on a cluster of 3 masters and 3 replicas, beside asynq and BullMQ on the same servers and errand on Postgres",
	Note: "No system keeps completed jobs. Redis writes nothing to disk; Postgres does, with each commit. Drain: 100,000 no-op jobs, as in drain, Concurrency 100; asynq and " +
		"BullMQ get three tenths of them. Enqueue: batches from one goroutine, which are pipelines for BullMQ, and for asynq single calls from 64, because it has no batches; or " +
		"one job a call for 2 s, no worker. Claim and settle: two calls a job for 2 s; asynq has no such calls. Wake-up: one process enqueues, one job a call, and works, for 4 s " +
		"after a warm-up; from the return of the enqueueing call to the call of the handler. Each job is checked to be there, or to have run once. BullMQ's processes are of " +
		"Node, with as many callers as the others have goroutines, on one connection; its worker has a second one, and is one thread. BullMQ also writes a stream " +
		"of events, several a job.",
	Cases:   []string{redisDrain, redisBatches, redisOne, redisMany, redisTakes, redisWake},
	Systems: []string{"errand-delete", errandRedis, redisCluster, "asynq-best", "asynq-cluster", "bullmq", "bullmq-cluster"},
	Base:    errandRedis,
	Rounds:  2,
	Chart:   []result.Metric{result.Throughput},
	Targets: []result.Target{
		{Of: result.Place{Case: redisDrain, System: errandRedis}, Metric: result.Throughput, Factor: 40_000},
		forCase(redisDrain, atLeast(4, result.Throughput, errandRedis, "asynq-best")),
		{Of: result.Place{Case: redisMany, System: errandRedis}, Metric: result.Throughput, Factor: 20_000},
		{Of: result.Place{Case: redisTakes, System: errandRedis}, Metric: result.Throughput, Factor: 10_000},
		{Of: result.Place{Case: redisWake, System: errandRedis}, Metric: result.P99, Most: true, Factor: 50},
		{Of: result.Place{Case: redisWake, System: redisCluster}, Metric: result.P99, Most: true, Factor: 50},
	},
	Measure: measureRedis,
}

func measureRedis(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	switch name {
	case redisDrain:
		out, err := h.Drain(ctx, harness.Drainage{System: system, Jobs: redisDrainJobs})
		return out.Figures, err
	case redisBatches:
		return measureBatches(ctx, h, system, redisBatchJobs)
	case redisOne:
		return measureCalls(ctx, h, system, 1)
	case redisMany:
		return measureCalls(ctx, h, system, 16)
	case redisTakes:
		return measureTakes(ctx, h, system)
	}
	return measureWakeUp(ctx, h, system, redisWakeRate, redisWakeTime)
}

// measureTakes measures how fast jobs are claimed and settled one by one. asynq has no figure.
func measureTakes(ctx context.Context, h *harness.Harness, system peer.System) ([]result.Figure, error) {
	if system.Family == "asynq" {
		return nil, nil
	}
	if err := h.Fresh(ctx, system); err != nil {
		return nil, err
	}
	jobs := h.Jobs(redisTaken)
	if err := h.Load(ctx, system, jobs); err != nil {
		return nil, err
	}
	r, u, err := h.RunMetered(ctx, system, child.Spec{Part: "takes", Goroutines: redisTakers, Duration: h.Duration(singlesTime)})
	if err != nil {
		return nil, err
	}
	taken := int(r.Figures["jobs"])
	err = h.With(ctx, system, func(p peer.Peer) error {
		c, err := p.Census(ctx)
		if left := jobs - taken - redisTakers*child.WarmUp; err == nil && c.Unsettled != max(left, 0) {
			err = fmt.Errorf("%d jobs are left, want %d", c.Unsettled, left)
		}
		return err
	})
	return append([]result.Figure{result.NewFigure(result.Throughput, r.Figures["rate"])}, u.Figures(taken)...), err
}
