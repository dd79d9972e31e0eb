package backendtest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// claimersAt has 8 claimers claim for d, or for five times as long as the slowest claim takes if
// that is longer: on a slow machine the fewer claims of d would not come to what the rate lets
// start. It returns when each job of each group was claimed: a time before that of the claim, and
// one after it.
func claimersAt(t *testing.T, h Harness, d time.Duration) map[string][][2]time.Time {
	var mu sync.Mutex
	times := make(map[string][][2]time.Time)
	var claimers sync.WaitGroup
	begun := time.Now()
	isOver := func(claim time.Duration) bool {
		mu.Lock()
		defer mu.Unlock()
		d = max(d, 5*claim)
		return time.Since(begun) >= d
	}
	for i := range 8 {
		claimers.Go(func() {
			req := request(3 + i)
			req.Worker = fmt.Sprint("w", i)
			for before := begun; !isOver(time.Since(before)); {
				before = time.Now()
				jobs, err := h.Queue.Claim(t.Context(), req)
				after := time.Now()
				if err != nil {
					t.Errorf("Claim: %v", err)
					return
				}
				mu.Lock()
				for _, j := range jobs {
					times[j.Group] = append(times[j.Group], [2]time.Time{before, after})
				}
				mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
	}
	claimers.Wait()
	return times
}

// wantRate checks that no window of time holds more jobs than the rate lets start in it. It takes
// a window as long as it may have been.
func wantRate(t *testing.T, what string, times [][2]time.Time, rate queue.Rate) {
	t.Helper()
	slices.SortFunc(times, func(a, b [2]time.Time) int { return a[1].Compare(b[1]) })
	for i, first := range times {
		from := first[0]
		for j := i; j < len(times); j++ {
			if times[j][0].Before(from) { // a claim whose answer took longer
				from = times[j][0]
			}
			window := times[j][1].Sub(from) + 2*time.Millisecond
			if most := float64(rate.Burst) + float64(rate.Jobs)*window.Seconds(); float64(j-i+1) > most {
				t.Fatalf("%s: %d jobs within %v: at most %.1f", what, j-i+1, window, most)
			}
		}
	}
}

func testClaimersKeepRate(t *testing.T, h Harness) {
	rate := queue.Rate{Jobs: 200, Burst: 20}
	setRules(t, h, queue.Rule{Queue: "q", Rate: rate})
	enqueue(t, h, newJobs(1000, nil)...)
	times := claimersAt(t, h, time.Second)[""]
	wantRate(t, "8 claimers", times, rate)
	if len(times) < 100 {
		t.Errorf("8 claimers: got %d jobs in a second or more at 200/s and a burst of 20", len(times))
	}
}

func testClaimersKeepGroupRates(t *testing.T, h Harness) {
	rate := queue.Rate{Jobs: 50, Burst: 5}
	setRules(t, h, queue.Rule{Queue: "q", GroupRate: rate})
	for i := range 6 {
		enqueue(t, h, inGroup(fmt.Sprint("g", i), 100)...)
	}
	times := claimersAt(t, h, time.Second)
	for i := range 6 {
		group := fmt.Sprint("g", i)
		wantRate(t, "group "+group, times[group], rate)
		if len(times[group]) < 25 {
			t.Errorf("group %s: got %d jobs in a second or more at 50/s and a burst of 5", group, len(times[group]))
		}
	}
}

// runFor runs a worker with the handler until done is closed or patience is over.
func runFor(t *testing.T, h Harness, done <-chan struct{}, handler queue.HandlerFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		select {
		case <-done:
		case <-ctx.Done():
		}
		cancel()
	}()
	w := engine.Worker{Backend: h.Queue, Handler: handler, Queues: []string{"q"}, Poll: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	if err := w.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// testWorkersUseRate: a worker sleeps until the next token is due, not until its next poll.
func testWorkersUseRate(t *testing.T, h Harness) {
	for _, rule := range []queue.Rule{
		{Queue: "q", Rate: queue.Rate{Jobs: 20, Burst: 1}}, {Queue: "q", GroupRate: queue.Rate{Jobs: 20, Burst: 1}},
	} {
		setRules(t, h, rule)
		const total = 16
		enqueue(t, h, inGroup(fmt.Sprint("g", rule.Rate.Jobs), total)...)
		done := make(chan struct{})
		var mu sync.Mutex
		ran := 0
		began := time.Now()
		runFor(t, h, done, func(context.Context, *queue.Job) error {
			mu.Lock()
			defer mu.Unlock()
			if ran++; ran == total {
				close(done)
			}
			return nil
		})
		if took := time.Since(began); ran != total || took < 740*time.Millisecond {
			t.Errorf("%+v: %d of %d jobs ran in %v: want all within %v, and not sooner than in 750ms", rule, ran, total, took, patience)
		}
	}
}
