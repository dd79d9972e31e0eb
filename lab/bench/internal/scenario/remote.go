package scenario

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/lab/internal/server"
)

const (
	remoteWaiting = "300/s" // 1,000 workers wait for the jobs
	remoteIdle    = "idle"
	remoteDrain   = "drain"
	remoteOne     = "enqueue from 1 goroutine"
	remoteMany    = "enqueue from 16 goroutines"

	remoteWorkers   = 1000
	remoteRate      = 300
	remoteDrainJobs = 50_000
	remoteIdleTime  = 30 * time.Second
	remoteSystem    = "errand-remote"
)

var remotes = Scenario{
	Name:  "remote",
	Title: "workers and enqueuers behind a gateway, and what its hop costs",
	Note: "The gateway is a process of its own, and its processor time and memory count. 300/s: 1,000 workers of Concurrency 1 wait on it; " +
		"from the return of an enqueueing call that is connected to the database to the call of the handler, for 10 s after a warm-up; errand: " +
		"one connected worker of Concurrency 10. Idle: the same workers and that one, without jobs, for 30 s. Drain: 50,000 no-op jobs, as in " +
		"drain. Enqueue: one job a call for 2 s, no worker.",
	Cases:   []string{remoteWaiting, remoteIdle, remoteDrain, remoteOne, remoteMany},
	Systems: []string{"errand", remoteSystem},
	Rounds:  2,
	Chart:   []result.Metric{result.P50, result.P99},
	Targets: []result.Target{
		{Of: result.Place{Case: remoteWaiting, System: remoteSystem}, Metric: result.P99, Most: true, Factor: 25},
		forCase(remoteIdle, atMost(1.2, result.Transactions, remoteSystem, "errand")),
	},
	Measure: measureRemote,
}

func measureRemote(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	port, err := server.FreePort()
	if err != nil {
		return nil, err
	}
	r := &remoteRun{Harness: h, system: system, address: "127.0.0.1:" + port}
	switch name {
	case remoteWaiting:
		return r.wait(ctx)
	case remoteIdle:
		return r.idle(ctx)
	case remoteDrain:
		out, err := h.Drain(ctx, harness.Drainage{System: system, Jobs: remoteDrainJobs, Spec: r.spec(child.Spec{}), Helpers: r.startGateway})
		return out.Figures, err
	case remoteOne:
		return r.enqueue(ctx, 1)
	}
	return r.enqueue(ctx, 16)
}

// remoteRun is a measurement, of errand behind a gateway or of errand itself.
type remoteRun struct {
	*harness.Harness
	system  peer.System
	address string // of the gateway
}

func (r *remoteRun) isBehindGateway() bool { return r.system.Name == remoteSystem }

// spec returns a spec that also says where the gateway is.
func (r *remoteRun) spec(s child.Spec) child.Spec {
	if r.isBehindGateway() {
		s.Gateway = "http://" + r.address
	}
	return s
}

// fresh makes the tables, and starts the gateway.
func (r *remoteRun) fresh(ctx context.Context) (harness.Crew, error) {
	if err := r.Fresh(ctx, r.system); err != nil {
		return nil, err
	}
	return r.startGateway(ctx)
}

// startGateway starts the gateway if the system is behind one.
func (r *remoteRun) startGateway(ctx context.Context) (harness.Crew, error) {
	if !r.isBehindGateway() {
		return nil, nil
	}
	p, err := r.Start(ctx, r.system, child.Spec{Part: "gateway", Address: r.address})
	if err != nil {
		return nil, err
	}
	return harness.Crew{p}, p.Go()
}

// crowd returns the spec of the workers that wait.
func (r *remoteRun) crowd(s child.Spec) child.Spec {
	if r.isBehindGateway() {
		s.Workers, s.Concurrency = min(r.Jobs(remoteWorkers), remoteWorkers), 1
	}
	return r.spec(s)
}

// wait measures how long jobs take to their handlers while workers wait for them.
func (r *remoteRun) wait(ctx context.Context) ([]result.Figure, error) {
	gateway, err := r.fresh(ctx)
	defer gateway.Kill()
	if err != nil {
		return nil, err
	}
	spec := r.crowd(child.Spec{Part: "fleet", Rate: remoteRate, Duration: r.Duration(latencyTime)})
	got, u, err := r.RunMetered(ctx, r.system, spec, gateway...)
	if err != nil {
		return nil, err
	}
	err = r.With(ctx, r.system, func(p peer.Peer) error { return harness.Verify(ctx, p, r.system, 0, int(got.Handled)) })
	return append([]result.Figure{
		result.NewFigure(result.P50, got.Figures["p50"]),
		result.NewFigure(result.P99, got.Figures["p99"]),
		result.NewFigure(result.Slowest, got.Figures["max"]),
	}, u.Figures(int(got.Handled))...), err
}

// idle counts the transactions on the server while workers wait and nothing comes.
func (r *remoteRun) idle(ctx context.Context) ([]result.Figure, error) {
	gateway, err := r.fresh(ctx)
	defer gateway.Kill()
	if err != nil {
		return nil, err
	}
	p, err := r.Start(ctx, r.system, r.crowd(child.Spec{Part: "work"}))
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	if err := p.Go(); err != nil {
		return nil, err
	}
	time.Sleep(r.Duration(10 * time.Second)) // until all are asleep, and the server has counted that
	from := time.Now()
	before, err := r.Read(ctx, r.system)
	if err != nil {
		return nil, err
	}
	time.Sleep(r.Duration(remoteIdleTime))
	after, err := r.Read(ctx, r.system)
	if err != nil {
		return nil, err
	}
	took := time.Since(from).Seconds()
	results, err := append(harness.Crew{p}, gateway...).Stop()
	if err != nil {
		return nil, err
	}
	var rss int64
	for _, used := range results {
		rss += used.PeakRSS
	}
	return []result.Figure{
		result.NewFigure(result.Transactions, float64(after.Commits-before.Commits)/took),
		result.NewFigure(result.PeakRSS, float64(rss)/(1<<20)),
	}, nil
}

// enqueue measures how fast single jobs are enqueued.
func (r *remoteRun) enqueue(ctx context.Context, goroutines int) ([]result.Figure, error) {
	gateway, err := r.fresh(ctx)
	defer gateway.Kill()
	if err != nil {
		return nil, err
	}
	spec := r.spec(child.Spec{Part: "singles", Goroutines: goroutines, Duration: r.Duration(singlesTime)})
	got, u, err := r.RunMetered(ctx, r.system, spec, gateway...)
	if err != nil {
		return nil, err
	}
	jobs := int(got.Figures["jobs"])
	if err := r.VerifyAll(ctx, r.system, goroutines*child.WarmUp+jobs); err != nil {
		return nil, err
	}
	return append([]result.Figure{
		result.NewFigure(result.Throughput, got.Figures["rate"]),
		result.NewFigure(result.P50, got.Figures["p50"]),
		result.NewFigure(result.P99, got.Figures["p99"]),
	}, u.Figures(jobs)...), nil
}
