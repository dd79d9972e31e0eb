package backendtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var ratesCases = []testCase{
	{"bad rates and costs", hasRuler, testBadRates},
	{"listed as they were set", hasRuler | isInOrder, testRatesList},
	{"a burst, and then one by one", hasRuler | isInOrder, testBurst},
	{"of each group", hasRuler | isInOrder, testGroupRates},
	{"a group without tokens hides no other", hasRuler | isFull | isInOrder, testGroupRateHidesNone},
	{"cost", hasRuler | isInOrder, testCost},
	{"cost above the burst", hasRuler | isInOrder, testCostAboveBurst},
	{"cost is kept", hasRuler | hasInspector | isInOrder, testCostIsKept},
	{"a claim without jobs spends nothing", hasRuler | isInOrder, testNothingSpent},
	{"beside limits", hasRuler | isInOrder, testRateAndLimits},
	{"of ordered jobs", hasRuler | isInOrder, testOrderedRate},
	{"changed", hasRuler | isInOrder, testRateChanged},
	{"of a rolled back transaction", hasRuler | hasTx | isInOrder, testRateInTx},
	{"8 claimers keep a rate", hasRuler | isFull | isInOrder, testClaimersKeepRate},
	{"8 claimers keep the rates of groups", hasRuler | isFull | isInOrder, testClaimersKeepGroupRates},
	{"workers use the whole rate", hasRuler | hasWakeUps | isFull | isInOrder, testWorkersUseRate},
	{"throttled", hasRuler | isInOrder, testThrottled},
	{"a throttled group hides no other", hasRuler | isInOrder, testThrottledHidden},
	{"throttled, and then changed", hasRuler | isInOrder, testThrottledThenChanged},
	{"throttled in a transaction", hasRuler | hasTx | isInOrder, testThrottledInTx},
	{"throttled by the holder alone", hasRuler | isInOrder, testThrottledByHolder},
	{"throttled by a handler", hasRuler | hasWakeUps | isInOrder, testThrottledHandler},
	{"told", hasRuler | isInOrder, testRateWaits},
	{"told after a throttle", hasRuler | isInOrder, testThrottledWaits},
	{"pruned", hasRuler | hasReclaimer | isInOrder, testRatesPruned},
	{"pruned after a throttle", hasRuler | hasReclaimer | isInOrder, testThrottledPruned},
	{"pruned after a lower rate", hasRuler | hasReclaimer | isInOrder, testLowerRatePruned},
}

// aBurst returns a rate whose tokens come so slowly that a case sees no more than the burst.
func aBurst(burst int) queue.Rate { return queue.Rate{Jobs: 1, Per: time.Hour, Burst: burst} }

func testBadRates(t *testing.T, h Harness) {
	ruler, _ := driver.As[driver.Ruler](h.Queue)
	for _, bad := range []queue.Rate{
		{Jobs: -1}, {Jobs: 1_000_001, Per: time.Hour}, {Per: time.Second}, {Burst: 1}, {Jobs: 1, Per: -1},
		{Jobs: 1, Per: time.Microsecond}, {Jobs: 1, Per: 367 * 24 * time.Hour}, {Jobs: 1001, Per: time.Millisecond},
		{Jobs: 1, Burst: -1}, {Jobs: 1, Burst: 1_000_001}, {Jobs: 1, Per: 366 * 24 * time.Hour, Burst: 11},
	} {
		err := ruler.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Rate: bad})
		wantInvalid(t, fmt.Sprintf("SetRules with the rate %+v", bad), err, "Rate")
		if bad.Jobs < 0 {
			bad.Jobs, bad.Burst = -2, 0
		}
		err = ruler.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Group: "g", GroupRate: bad})
		wantInvalid(t, fmt.Sprintf("SetRules with the group's rate %+v", bad), err, "GroupRate")
	}
	err := ruler.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Group: "g", Rate: aBurst(1)})
	wantInvalid(t, "SetRules with the Rate of a group", err, "Rate")
	err = ruler.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Group: "g", GroupRate: queue.Rate{Jobs: -1, Burst: 1}})
	wantInvalid(t, "SetRules with a burst of no limit", err, "GroupRate")
	wantRules(t, h, "after bad ones")
	for _, cost := range []int{-1, 1_000_001} {
		job := newJob()
		job.Cost = cost
		wantInvalid(t, fmt.Sprintf("Enqueue with the cost %d", cost), h.Queue.Enqueue(t.Context(), nil, newJob(), job), "Cost")
	}
	claimNone(t, h, "after bad costs")
	_, err = h.Queue.Settle(t.Context(), nil, queue.Outcome{Job: newJob(), Action: queue.Retry, Throttle: true})
	wantInvalid(t, "Settle that throttles a retry", err, "Outcome.Throttle")
}

func testRatesList(t *testing.T, h Harness) {
	rules := []queue.Rule{
		{Queue: "a", Rate: queue.Rate{Jobs: 1_000_000, Per: 366 * 24 * time.Hour, Burst: 7}, GroupRate: queue.Rate{Jobs: 3}},
		{Queue: "a", Group: "free", GroupRate: queue.Rate{Jobs: -1}},
		{Queue: "b", GroupRate: queue.Rate{Jobs: 1000, Per: time.Millisecond, Burst: 1_000_000}},
	}
	setRules(t, h, rules...)
	wantRules(t, h, "with rates", rules...)
	setRules(t, h, queue.Rule{Queue: "a", Rate: aBurst(2)}, queue.Rule{Queue: "a", Group: "free"}, queue.Rule{Queue: "b"})
	wantRules(t, h, "with another rate", queue.Rule{Queue: "a", Rate: aBurst(2)})
}

func testBurst(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 20, Burst: 5}}) // a token in 50 ms
	jobs := newJobs(10, func(i int, j *queue.Job) { j.Priority = int32(i) })
	enqueue(t, h, jobs...)
	began := time.Now()
	first := wantGroups(t, h, "claim of a burst", request(20), map[string]int{"": 5})
	wantIDs(t, "claim of a burst", first, jobs[:5])
	settle(t, h, outcomes(queue.Done, first...)...) // brings no token
	rest := claimSoon(t, h, request(20), 5)
	wantIDs(t, "claims after the burst", rest, jobs[5:])
	if took := time.Since(began); took < 240*time.Millisecond {
		t.Errorf("10 jobs at 20/s and a burst of 5 took %v: want 250ms at least", took)
	}
}

func testGroupRates(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", GroupRate: aBurst(2)},
		queue.Rule{Queue: "q", Group: "large", GroupRate: aBurst(4)},
		queue.Rule{Queue: "q", Group: "free", GroupRate: queue.Rate{Jobs: -1}},
		queue.Rule{Queue: "q", Group: "other", Share: 2})
	for _, group := range []string{"a", "large", "free", "other", ""} {
		enqueue(t, h, inGroup(group, 5)...)
	}
	wantGroups(t, h, "claim", request(30), map[string]int{"a": 2, "large": 4, "free": 5, "other": 2, "": 5})
	claimNone(t, h, "without tokens")
	enqueue(t, h, inGroup("b", 3)...)
	wantGroups(t, h, "claim of a new group", request(30), map[string]int{"b": 2})
}

func testGroupRateHidesNone(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", GroupRate: aBurst(1)})
	var jobs []*queue.Job
	for i := range 1500 {
		jobs = append(jobs, inGroup(fmt.Sprintf("g%04d", i), 2)...)
	}
	enqueue(t, h, jobs...)
	for got := 0; got < 1500; {
		n := len(claim(t, h, request(1000)))
		if got += n; n == 0 {
			n = len(claim(t, h, request(1000))) // a claim passes over a thousand groups at most
			if got += n; n == 0 {
				t.Fatalf("claims: got %d jobs, want one of each of 1,500 groups", got)
			}
		}
	}
	enqueue(t, h, inGroup("z", 1)...)
	if got := claimSoon(t, h, request(10), 1); got[0].Group != "z" {
		t.Fatalf("claim behind 1,500 groups without tokens: got a job of %q", got[0].Group)
	}
}

// costing returns jobs of these costs, in this order.
func costing(group string, costs ...int) []*queue.Job {
	return newJobs(len(costs), func(i int, j *queue.Job) { j.Group, j.Cost, j.Priority = group, costs[i], int32(i) })
}

func testCost(t *testing.T, h Harness) {
	for _, rule := range []queue.Rule{{Queue: "q", Rate: aBurst(10)}, {Queue: "q", GroupRate: aBurst(10)}} {
		setRules(t, h, rule)
		jobs := costing(fmt.Sprint("g", rule.Rate.Jobs), 3, 4, 4, 1)
		enqueue(t, h, jobs...)
		wantIDs(t, fmt.Sprintf("claim of costs of 3, 4, 4 and 1 with %+v", rule), claim(t, h, request(10)), jobs[:2])
		claimNone(t, h, "of a job that costs more than is left")
		setRules(t, h, queue.Rule{Queue: "q"})
		rest := claim(t, h, request(10))
		wantIDs(t, "claim without the rule", rest, jobs[2:])
	}
}

// testCostAboveBurst: a job that costs more than the burst waits until it is full, and leaves a
// debt.
func testCostAboveBurst(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", GroupRate: aBurst(5)})
	enqueue(t, h, costing("slow", 3, 20)...)
	claim(t, h, request(1))
	claimNone(t, h, "of a job that costs more than the burst")

	setRules(t, h, queue.Rule{Queue: "q", GroupRate: queue.Rate{Jobs: 100, Burst: 5}}) // a token in 10 ms
	settle(t, h, outcomes(queue.Done, claimSoon(t, h, request(10), 1)...)...)
	jobs := costing("g", 3, 20, 1)
	enqueue(t, h, jobs...)
	began := time.Now()
	wantIDs(t, "first claim", claim(t, h, request(1)), jobs[:1])
	wantIDs(t, "claims with a full burst", claimSoon(t, h, request(10), 1), jobs[1:2])
	wantIDs(t, "claims after the debt", claimSoon(t, h, request(10), 1), jobs[2:])
	if took := time.Since(began); took < 185*time.Millisecond {
		t.Errorf("jobs that cost 3 and 20, and the next one, took %v at 100/s and a burst of 5: want 190ms", took)
	}
}

func testCostIsKept(t *testing.T, h Harness) {
	jobs := append(costing("g", 7, 1, 0), costing("", 8)...)
	keyed := costing("g", 9, 10, 11)
	for i, j := range keyed {
		j.Key = fmt.Sprint("key", i)
	}
	keyed[2].Ordered, keyed[2].Priority = true, 0
	enqueue(t, h, jobs...)
	enqueue(t, h, keyed...)
	for _, cost := range []int{12, 13, 14, 15} {
		j := costing([]string{"g", ""}[cost%2], cost)[0]
		if cost > 13 {
			j.Key = fmt.Sprint("key", cost)
		}
		enqueue(t, h, j)
		jobs = append(jobs, j)
	}
	again := costing("h", 16)[0]
	again.Key, again.OnDuplicate = "key0", queue.Replace
	added := costing("h", 17)[0]
	added.Key, added.OnDuplicate = "added", queue.Replace
	enqueue(t, h, again, added)
	keyed[0].Cost = 16
	for _, j := range slices.Concat(jobs, keyed, []*queue.Job{added}) {
		want := j.Cost
		if want == 1 {
			want = 0
		}
		if rec, _ := lookUp(t, h, j.ID); rec.Cost != want {
			t.Errorf("Cost of job %d with the key %q: got %d, want %d", j.ID, j.Key, rec.Cost, want)
		}
	}
	for _, j := range claim(t, h, request(20)) {
		if j.Cost != 0 {
			t.Errorf("claimed job %d has the Cost %d: want 0", j.ID, j.Cost)
		}
	}
}

func testNothingSpent(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Rate: aBurst(3), GroupRate: aBurst(3)})
	claimNone(t, h, "of an empty queue")
	enqueue(t, h, inGroup("g", 5)...)
	req := request(10)
	req.Kinds = []string{"none"}
	if got := claim(t, h, req); len(got) != 0 {
		t.Fatalf("claim of a kind that is not there: got jobs %v", ids(got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Queue.Claim(ctx, request(10)); err == nil {
		t.Fatal("Claim with a context that has ended: no error")
	}
	req = request(10)
	req.Ahead = 10
	if got := claim(t, h, req); len(got) != 0 {
		t.Fatalf("claim ahead: got jobs %v", ids(got))
	}
	wantGroups(t, h, "claim after claims without jobs", request(10), map[string]int{"g": 3})
}

func testRateAndLimits(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Running: 6, PerGroup: 2, Rate: aBurst(7), GroupRate: aBurst(3)})
	enqueue(t, h, slices.Concat(inGroup("a", 9), inGroup("b", 9), inGroup("c", 9))...)
	held := wantGroups(t, h, "first claim", request(20), map[string]int{"a": 2, "b": 2, "c": 2})
	claimNone(t, h, "at the limit")
	settle(t, h, outcomes(queue.Done, held...)...)
	if got := claim(t, h, request(20)); len(got) != 1 {
		t.Fatalf("claim with one token left: got %d jobs", len(got))
	}
	claimNone(t, h, "without tokens")
}

func testOrderedRate(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Rate: aBurst(5), GroupRate: aBurst(2)})
	ordered := func(i int, j *queue.Job) { j.Group, j.Ordered = fmt.Sprint(i%3), true }
	enqueue(t, h, newJobs(30, ordered)...)
	count := make(map[string]int)
	for range 10 {
		jobs := claim(t, h, request(10))
		for _, j := range jobs {
			count[j.Group]++
		}
		settle(t, h, outcomes(queue.Done, jobs...)...)
	}
	if len(count) != 3 || count["0"]+count["1"]+count["2"] != 5 || max(count["0"], count["1"], count["2"]) != 2 {
		t.Fatalf("ordered jobs at a burst of 5 for the queue and 2 for a group: got %v", count)
	}
}

// testRateChanged: after a change of a rate, the tokens that are missing come at the faster of the
// two rates until a job starts, and then at the new one.
func testRateChanged(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Rate: aBurst(100)})
	enqueue(t, h, newJobs(500, nil)...)
	if got := claim(t, h, request(500)); len(got) != 100 {
		t.Fatalf("claim at the first rate: got %d jobs, want 100", len(got))
	}
	setRules(t, h, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1, Per: 100 * time.Hour, Burst: 100}})
	claimNone(t, h, "at a lower rate, without tokens")
	setRules(t, h, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1000, Burst: 100}})
	if got := claimSoon(t, h, request(500), 50); len(got) > 149 {
		t.Fatalf("claim at a higher rate: got %d jobs", len(got))
	}
	time.Sleep(100 * time.Millisecond) // the bucket is full at the higher rate
	setRules(t, h, queue.Rule{Queue: "q", Rate: aBurst(100)})
	if got := claim(t, h, request(500)); len(got) != 100 {
		t.Fatalf("claim of a full bucket at the first rate again: got %d jobs, want 100", len(got))
	}
	claimNone(t, h, "without tokens")
	setRules(t, h, queue.Rule{Queue: "q", Rate: aBurst(103)})
	if got := claim(t, h, request(500)); len(got) != 3 {
		t.Fatalf("claim with a burst that is higher by 3: got %d jobs", len(got))
	}
	setRules(t, h, queue.Rule{Queue: "q"})
	if got := claim(t, h, request(500)); len(got) == 0 || got[0].Limited {
		t.Fatalf("claim without the rate: got %d jobs", len(got))
	}
}

func testRateInTx(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Rate: aBurst(2)})
	enqueue(t, h, newJobs(9, nil)...)
	tx := begin(t, h)
	setRulesIn(t, h, tx, queue.Rule{Queue: "q", Rate: aBurst(5)})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	claimAllLimited(t, h, 2)
	tx = begin(t, h)
	setRulesIn(t, h, tx, queue.Rule{Queue: "q", Rate: aBurst(5)})
	commit(t, tx)
	claimAllLimited(t, h, 3)
}

// testRatesPruned: Prune loses no tokens that are spent.
func testRatesPruned(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", GroupRate: aBurst(2)}, queue.Rule{Queue: "q", Group: "fast", GroupRate: queue.Rate{Jobs: 1000, Burst: 2}})
	enqueue(t, h, slices.Concat(inGroup("a", 5), inGroup("fast", 8))...)
	wantGroups(t, h, "claim", request(10), map[string]int{"a": 2, "fast": 2})
	time.Sleep(10 * time.Millisecond)
	prune(t, h)
	wantGroups(t, h, "claim after Prune", request(10), map[string]int{"fast": 2})
}

// testThrottledPruned: the first token after a throttle comes alone, also if the backend prunes
// before anybody takes it. Group own has a rate of its own, and queue all has one for all its jobs.
func testThrottledPruned(t *testing.T, h Harness) {
	jobsOfEach := func(n int) []*queue.Job {
		all := newJobs(n, func(_ int, j *queue.Job) { j.Queue = "all" })
		return slices.Concat(inGroup("a", n), inGroup("own", n), all)
	}
	enqueue(t, h, jobsOfEach(5)...)
	req := request(100)
	req.Queues = []string{"q", "all"}
	claimed := wantGroups(t, h, "claim", req, map[string]int{"a": 5, "own": 5, "": 5})
	setRules(t, h, queue.Rule{Queue: "q", GroupRate: aBurst(3)}, queue.Rule{Queue: "q", Group: "own", GroupRate: aBurst(2)},
		queue.Rule{Queue: "all", Rate: aBurst(3)})
	for _, job := range claimed { // which have spent nothing
		settle(t, h, queue.Outcome{Job: job, Action: queue.Release, Throttle: true, Delay: time.Millisecond})
	}
	time.Sleep(10 * time.Millisecond)
	prune(t, h)
	wantGroups(t, h, "claim after the throttle", req, map[string]int{"a": 1, "own": 1, "": 1})
}

// testLowerRatePruned: a bucket that is full stays full when the rate becomes lower, whether or not
// Prune has seen it.
func testLowerRatePruned(t *testing.T, h Harness) {
	for _, isPruned := range []bool{false, true} {
		setRules(t, h, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1000, Burst: 2}})
		enqueue(t, h, newJobs(5, nil)...)
		claimSoon(t, h, request(2), 2)
		time.Sleep(10 * time.Millisecond)
		if isPruned {
			prune(t, h)
		}
		setRules(t, h, queue.Rule{Queue: "q", Rate: aBurst(2)})
		wantGroups(t, h, fmt.Sprintf("claim at the lower rate, pruned: %v", isPruned), request(5), map[string]int{"": 2})
		claimNone(t, h, "at the lower rate")
	}
}
