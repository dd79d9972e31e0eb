package backendtest

import (
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// rateWaits returns what the rates of queue q have left, by their groups.
func rateWaits(t *testing.T, h Harness, groups ...string) map[string]driver.RateWait {
	t.Helper()
	ruler, _ := driver.As[driver.Ruler](h.Queue)
	list, err := ruler.RateWaits(t.Context(), "q", groups...)
	if err != nil {
		t.Fatalf("RateWaits: %v", err)
	}
	waits := make(map[string]driver.RateWait)
	for _, w := range list {
		waits[w.Group] = w
	}
	if len(waits) < len(list) {
		t.Errorf("RateWaits: got %+v, want each group once", list)
	}
	return waits
}

// wantWait compares how long the rate of a group has no token with what it should be, which may
// have passed by ten seconds since.
func wantWait(t *testing.T, when string, waits map[string]driver.RateWait, group string, wait, throttled time.Duration) {
	t.Helper()
	near := func(got, want time.Duration) bool { return got <= want+time.Second && got >= want-10*time.Second }
	got, ok := waits[group]
	if !ok || !near(got.Wait, wait) || !near(got.Throttled, throttled) || got.Throttled < 0 {
		t.Errorf("%s: RateWaits of group %q: got %+v (there is one: %t), want a wait of %v, throttled for %v", when, group, got, ok, wait, throttled)
	}
}

// testRateWaits: RateWaits tells what the rates of a queue and of its groups have left, and asking
// spends nothing.
func testRateWaits(t *testing.T, h Harness) {
	if got := rateWaits(t, h, "", "a"); len(got) > 0 {
		t.Errorf("without rules: RateWaits: got %+v, want none", got)
	}
	setRules(t, h, queue.Rule{Queue: "q", Rate: aBurst(5), GroupRate: aBurst(2)}, queue.Rule{Queue: "q", Group: "free", GroupRate: queue.Rate{Jobs: -1}})
	for range 2 {
		waits := rateWaits(t, h, "", "a", "free")
		wantWait(t, "full", waits, "", -4*time.Hour, 0)
		wantWait(t, "full", waits, "a", -time.Hour, 0)
		if _, has := waits["free"]; has || len(waits) != 2 {
			t.Errorf("full: RateWaits: got %+v, want none of the group without a rate", waits)
		}
	}
	enqueue(t, h, inGroup("a", 3)...)
	wantGroups(t, h, "claim", request(30), map[string]int{"a": 2})
	waits := rateWaits(t, h, "", "a", "b")
	wantWait(t, "two spent", waits, "", -2*time.Hour, 0)
	wantWait(t, "two spent", waits, "a", time.Hour, 0)
	wantWait(t, "two spent", waits, "b", -time.Hour, 0)
	if got := rateWaits(t, h, "b"); len(got) != 1 {
		t.Errorf("RateWaits: got %+v, want that of the one group that was named", got)
	}
}

// testThrottledWaits: RateWaits tells for how long a handler has made a rate stand still.
func testThrottledWaits(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Rate: aBurst(5)})
	enqueue(t, h, newJobs(1, nil)...)
	job := claim(t, h, request(1))[0]
	settle(t, h, queue.Outcome{Job: job, Action: queue.Release, Throttle: true, Delay: 2 * time.Hour})
	wantWait(t, "throttled", rateWaits(t, h, "", "a"), "", 2*time.Hour, 2*time.Hour)
}
