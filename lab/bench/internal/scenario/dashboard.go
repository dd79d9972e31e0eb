package scenario

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/browser"
	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/lab/bench/internal/stats"
	"github.com/errandhq/errand/lab/internal/server"
)

const (
	dashboardRows     = 10_000_000
	dashboardSessions = 20
	// The drain is measured in turns, with sessions and without. A turn with sessions is three
	// times as long as one without, and lasts at least minWatched if there is the time: at its
	// beginning everything is read anew.
	dashboardTurns   = 10
	watchedTime      = 10 * time.Minute // of all turns
	minWatched       = 30 * time.Second
	dashboardSettle  = 2 * time.Second // before each turn
	claimsAloneTime  = 3 * time.Minute // as long as a bulk retry may take: checkpoints and vacuums fall into both
	dashboardPath    = "/errand/"
	dashboardSession = "errand-dashboard" // the name of its database sessions

	watchedCase   = "watched"
	unwatchedCase = "unwatched"
	bulkCase      = "bulk retry"
	processCase   = "dashboard"
)

var dashboard = Scenario{
	Name:  "dashboard",
	Title: "the dashboard beside a full drain, on a table of 10 million jobs",
	Note: "10 million jobs of 50 queues and 200 kinds, and a worker that drains as fast as it can all the while. 20 sessions walk over all " +
		"pages, and refresh each one as a browser does. The drain is measured in turns, 10 of a minute with sessions and 10 of 20 s without; " +
		"it is slower by the median of the ratios. Then a million dead jobs are retried through the pages, without sessions. Meanwhile the " +
		"dashboard's process is killed once, and the same form sent again to the next one. Claims beside that are compared with claims of " +
		"three minutes without it.",
	Systems: []string{"errand"},
	Rounds:  1,
	Extra:   true,
	Chart:   []result.Metric{result.P99},
	Targets: dashboardTargets(),
	Measure: measureDashboard,
}

func dashboardTargets() []result.Target {
	targets := []result.Target{
		errandAtMost(1, result.SessionCPU, watchedCase),
		errandAtMost(0, result.SessionCPU, unwatchedCase),
		errandAtMost(2, result.Slowdown, watchedCase),
		errandAtMost(180, result.Took, bulkCase),
		errandAtMost(2, result.ClaimGrowth, bulkCase),
		errandAtMost(50, result.Heap, processCase),
		errandAtMost(60, result.Assets, processCase),
	}
	for _, page := range browser.Pages() {
		targets = append(targets, errandAtMost(300, result.P99, page), errandAtMost(0, result.Failed, page))
	}
	return targets
}

func measureDashboard(ctx context.Context, h *harness.Harness, system peer.System, _ string) (figures []result.Figure, err error) {
	if err := fillDashboard(ctx, h, system); err != nil {
		return nil, err
	}
	port, err := server.FreePort()
	if err != nil {
		return nil, err
	}
	s := &site{Harness: h, system: system, address: "127.0.0.1:" + port}
	defer s.kill()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	watching, err := s.measureWatching(ctx)
	if err != nil {
		return nil, err
	}
	retry, err := s.measureBulk(ctx)
	if err != nil {
		return nil, err
	}
	assets, err := browser.AssetSize(ctx, s.root())
	if err != nil {
		return nil, err
	}
	return slices.Concat(watching, retry, []result.Figure{
		{Case: processCase, Metric: result.Heap, Value: s.peakHeap() / (1 << 20)},
		{Case: processCase, Metric: result.Assets, Value: float64(assets) / 1000},
	}), nil
}

// site is a dashboard in a process of its own.
type site struct {
	*harness.Harness
	system  peer.System
	address string
	process *child.Process
	ended   []*child.Process // processes that were killed
}

func (s *site) root() string { return "http://" + s.address + dashboardPath }

func (s *site) start(ctx context.Context) error {
	dsn, err := server.WithParameter(s.Postgres.DSN, "application_name", dashboardSession)
	if err != nil {
		return err
	}
	s.process, err = s.Start(ctx, s.system, child.Spec{
		Part: "dashboard", DSN: dsn, Address: s.address, SampleEvery: s.Duration(time.Second),
	})
	if err != nil {
		return err
	}
	return s.process.Go()
}

// kill ends the process at once.
func (s *site) kill() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	<-s.process.Ended()
	s.ended = append(s.ended, s.process)
	s.process = nil
}

// peakHeap returns the most bytes that a process of the dashboard had in use.
func (s *site) peakHeap() (most float64) {
	for _, p := range append(s.ended, s.process) {
		for _, sample := range p.Samples() {
			most = max(most, sample["heap"])
		}
	}
	return most
}

// measureWatching measures the pages, and the drain with sessions and without.
func (s *site) measureWatching(ctx context.Context) ([]result.Figure, error) {
	crowd, err := browser.NewCrowd(s.root(), dashboardSessions)
	if err != nil {
		return nil, err
	}
	var watched, unwatched part
	var ratios []float64
	_, err = s.beside(ctx, false, func(ctx context.Context, crew harness.Crew) error {
		turns, length := s.turns()
		for i := range turns {
			var with, without turn
			measureWith := func() (err error) {
				with, err = s.measureTurn(ctx, crew, length, crowd)
				return err
			}
			measureWithout := func() (err error) {
				without, err = s.measureTurn(ctx, crew, length/3, nil)
				return err
			}
			order := []func() error{measureWith, measureWithout}
			if i%2 == 1 { // what grows or shrinks over time favours neither
				slices.Reverse(order)
			}
			for _, measure := range order {
				if err := measure(); err != nil {
					return err
				}
			}
			watched.add(with)
			unwatched.add(without)
			if without.handled > 0 { // not in the shortest measurements
				ratios = append(ratios, with.rate()/without.rate())
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := crowd.Failure(); err != nil {
		fmt.Fprintf(os.Stderr, "dashboard: the first answer that was no page: %v\n", err)
	}
	var slower []result.Figure
	if len(ratios) > 0 {
		slower = append(slower, result.Figure{Case: watchedCase, Metric: result.Slowdown, Value: 100 * (1 - stats.Median(ratios))})
	}
	return slices.Concat(watched.figures(watchedCase), slower, unwatched.figures(unwatchedCase), pageFigures(crowd.Visits())), nil
}

// turns returns how many turns with sessions there are, and how long each is. Short measurements
// have few turns, and very short ones short turns.
func (s *site) turns() (n int, length time.Duration) {
	all := s.Duration(watchedTime)
	n = min(max(int(all/minWatched), 2), dashboardTurns)
	return n, all / time.Duration(n)
}

// pageFigures returns the times of each page.
func pageFigures(visits []browser.Visit) (figures []result.Figure) {
	for _, page := range browser.Pages() {
		var took []time.Duration
		unchanged, late, failed := 0, 0, 0
		for _, v := range visits {
			if v.Page != page {
				continue
			}
			took = append(took, v.Took)
			if v.Unchanged {
				unchanged++
			}
			if v.Late {
				late++
			}
			if v.Failed {
				failed++
			}
		}
		if len(took) == 0 {
			continue
		}
		share := func(n int) float64 { return 100 * float64(n) / float64(len(took)) }
		quantile := func(q float64) float64 { return float64(stats.Quantile(took, q)) / float64(time.Millisecond) }
		figures = append(figures,
			result.Figure{Case: page, Metric: result.P50, Value: quantile(0.5)},
			result.Figure{Case: page, Metric: result.P99, Value: quantile(0.99)},
			result.Figure{Case: page, Metric: result.Slowest, Value: quantile(1)},
			result.Figure{Case: page, Metric: result.Requests, Value: float64(len(took))},
			result.Figure{Case: page, Metric: result.Failed, Value: share(failed)},
			result.Figure{Case: page, Metric: result.Unchanged, Value: share(unchanged)},
			result.Figure{Case: page, Metric: result.Old, Value: share(late)})
	}
	return figures
}

// wait waits for d. It fails when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
