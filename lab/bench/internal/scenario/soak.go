package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/lab/bench/internal/stats"
)

const (
	// soakSamples is how many samples a soak takes.
	soakSamples = 20
	// soakLoad is the load of a soak, as a share of the machine's capacity.
	soakLoad = 0.7

	earlyCase = "2nd quarter"
	lateCase  = "last quarter"
)

var soakMetrics = []result.Metric{result.P99, result.TableSize, result.IndexSize, result.RSS}

var soak = Scenario{
	Name:    "soak",
	Title:   "20 minutes at 70 % of what the machine can do, autovacuum at its defaults",
	Note:    "What the machine can do is measured first: 100,000 jobs enqueued in batches and then drained, jobs by the sum of both times, since both share its cores. p99 is from the call that enqueues to the handler. Jobs that are done are not kept. A sample is of a twentieth of the time; the quarters are medians.",
	Systems: []string{"errand-delete"},
	Rounds:  1,
	Extra:   true,
	Series:  true,
	Chart:   soakMetrics,
	Targets: soakTargets(),
	Measure: measureSoak,
}

func soakTargets() []result.Target {
	var targets []result.Target
	for _, m := range soakMetrics {
		t := errandAgainst(1.2, true, m, lateCase, earlyCase)
		t.Of.System, t.Over.System = "errand-delete", "errand-delete"
		targets = append(targets, t)
	}
	return targets
}

func measureSoak(ctx context.Context, h *harness.Harness, system peer.System, _ string) ([]result.Figure, error) {
	possible, err := capacity(ctx, h, system)
	if err != nil {
		return nil, err
	}
	if err := h.Fresh(ctx, system); err != nil {
		return nil, err
	}
	every := h.Soak / soakSamples
	worker, err := h.Start(ctx, system, child.Spec{Part: "work", Concurrency: harness.Concurrency, SampleEvery: every})
	if err != nil {
		return nil, err
	}
	defer worker.Kill()
	producer, err := h.Start(ctx, system, child.Spec{Part: "flow", Rate: int(soakLoad * possible), Batch: harness.Batch, Duration: h.Soak})
	if err != nil {
		return nil, err
	}
	defer producer.Kill()
	if err := errors.Join(worker.Go(), producer.Go()); err != nil {
		return nil, err
	}
	samples, err := sample(ctx, h, worker, producer)
	if err != nil {
		return nil, err
	}
	if err := endSoak(ctx, h, system, worker, producer); err != nil {
		return nil, err
	}
	return soakFigures(samples, every), nil
}

// capacity returns how many jobs a second this machine can enqueue and run at the same time.
func capacity(ctx context.Context, h *harness.Harness, system peer.System) (float64, error) {
	if err := h.Fresh(ctx, system); err != nil {
		return 0, err
	}
	r, err := h.RunAlone(ctx, system, child.Spec{Part: "enqueue", Jobs: h.Jobs(enqueueJobs), Batch: harness.Batch})
	if err != nil {
		return 0, err
	}
	out, err := h.Drain(ctx, harness.Drainage{System: system, Jobs: drainJobs})
	if err != nil {
		return 0, err
	}
	return 1 / (1/r.Figures["rate"] + 1/out.Rate), nil
}

// sample reads the sizes of the table whenever the worker has taken its sample, until the producer
// has ended.
func sample(ctx context.Context, h *harness.Harness, worker, producer *child.Process) ([][]result.Figure, error) {
	var all [][]result.Figure
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-worker.Ended():
			_, err := worker.Wait()
			return nil, errors.Join(errors.New("the worker has ended"), err)
		case <-producer.Ended():
			return all, nil
		case <-worker.Changed():
		}
		for _, s := range worker.Samples()[len(all):] {
			figures, err := sizes(ctx, h)
			if err != nil {
				return nil, err
			}
			all = append(all, append([]result.Figure{
				result.NewFigure(result.Throughput, s["rate"]),
				result.NewFigure(result.P50, s["p50"]),
				result.NewFigure(result.P99, s["p99"]),
				result.NewFigure(result.RSS, s["rss"]/(1<<20)),
			}, figures...))
		}
	}
}

// sizes returns the sizes of errand's table and of its indexes.
func sizes(ctx context.Context, h *harness.Harness) ([]result.Figure, error) {
	table, err := h.Postgres.Number(ctx, `SELECT pg_relation_size('errand.jobs')`)
	if err != nil {
		return nil, err
	}
	indexes, err := h.Postgres.Number(ctx, `SELECT pg_indexes_size('errand.jobs')`)
	return []result.Figure{
		result.NewFigure(result.TableSize, float64(table)/(1<<20)),
		result.NewFigure(result.IndexSize, float64(indexes)/(1<<20)),
	}, err
}

// endSoak waits until all jobs have been handled, stops the worker, and checks that no job is left.
func endSoak(ctx context.Context, h *harness.Harness, system peer.System, worker, producer *child.Process) error {
	sent, err := producer.Wait()
	if err != nil {
		return err
	}
	jobs := int(sent.Figures["jobs"])
	limited, cancel := context.WithTimeout(ctx, harness.DrainTimeout)
	defer cancel()
	if err := (harness.Crew{worker}).Await(limited, jobs); err != nil {
		return err
	}
	r, err := worker.Stop()
	if err != nil {
		return err
	}
	if r.Handled != int64(jobs) {
		return fmt.Errorf("handlers ran %d times for %d jobs", r.Handled, jobs)
	}
	return h.With(ctx, system, func(p peer.Peer) error { return harness.Verify(ctx, p, system, 0, 0) })
}

// soakFigures returns the samples, each as a case of its time, and the medians of two quarters.
func soakFigures(samples [][]result.Figure, every time.Duration) []result.Figure {
	var all []result.Figure
	for i, sample := range samples {
		for _, f := range sample {
			f.Case = fmt.Sprintf("%s%.4g min", result.At, (time.Duration(i+1) * every).Minutes())
			all = append(all, f)
		}
	}
	n := len(samples)
	all = append(all, medians(earlyCase, samples[n/4:n/2])...)
	return append(all, medians(lateCase, samples[n-n/4:])...)
}

func medians(name string, samples [][]result.Figure) []result.Figure {
	if len(samples) == 0 {
		return nil
	}
	var figures []result.Figure
	for i, f := range samples[0] {
		var values []float64
		for _, s := range samples {
			values = append(values, s[i].Value)
		}
		figures = append(figures, result.Figure{Case: name, Metric: f.Metric, Value: stats.Median(values)})
	}
	return figures
}
