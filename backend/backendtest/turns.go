package backendtest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var turnsCases = []testCase{
	{"groups take turns", hasRuler | isInOrder, testTurns},
	{"a lone group gets all", hasRuler | isInOrder, testLoneGroup},
	{"one job beside 10,000", hasRuler | isFull | isInOrder, testOneBesideMany},
	{"1,500 full groups hide none", hasRuler | isFull | isInOrder, testManyFullGroups},
	{"3,000 groups without a job for the worker hide none", hasRuler | hasWakeUps | isFull | isInOrder, testManyBlockedGroups},
	{"jobs without a group behind 1,000 that are not due", hasRuler | isInOrder, testUngroupedBehind},
	{"6,000 jobs of another kind hide none", hasRuler | isFull | isInOrder, testUnhandledHideNone},
	{"order of several kinds in a group", hasRuler | isInOrder, testOrderOfKinds},
	{"a place is free after the reclaim, not before", hasRuler | hasReclaimer | isInOrder, testReclaimedPlace},
	{"8 claimers keep the limits", hasRuler | isFull | isInOrder, testClaimersKeepLimits},
	{"8 claimers beside changes of the rules", hasRuler | isFull | isInOrder, testClaimersBesideChanges},
	{"resuming wakes", hasRuler | hasWakeUps, testResumeWakes},
	{"a place that becomes free wakes", hasRuler | hasWakeUps | isInOrder, testFreePlaceWakes},
}

func testTurns(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Share: 1}, queue.Rule{Queue: "q", Group: "c", Share: 3})
	enqueue(t, h, slices.Concat(inGroup("a", 100), inGroup("b", 100), inGroup("c", 100), inGroup("d", 1))...)
	wantGroups(t, h, "claim of one turn each", request(6), map[string]int{"a": 1, "b": 1, "c": 3, "d": 1})
	got := make(map[string]int)
	for range 15 {
		for _, j := range claim(t, h, request(1)) {
			got[j.Group]++
		}
	}
	// A claim that ends within a turn ends the turn.
	if got["a"] != 5 || got["b"] != 5 || got["c"] != 5 {
		t.Fatalf("15 claims of one job: got %v, want 5 of each group", got)
	}
	setRules(t, h, queue.Rule{Queue: "q", Group: "c"})
	wantGroups(t, h, "claim of 30 jobs", request(30), map[string]int{"a": 10, "b": 10, "c": 10})
}

func testLoneGroup(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Share: 1})
	enqueue(t, h, inGroup("a", 1000)...)
	wantGroups(t, h, "claim", request(700), map[string]int{"a": 700})
	enqueue(t, h, inGroup("b", 10)...)
	wantGroups(t, h, "claim beside a small group", request(300), map[string]int{"a": 290, "b": 10})
}

func testOneBesideMany(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Share: 1})
	enqueue(t, h, inGroup("a", 10_000)...)
	wantGroups(t, h, "claim", request(10), map[string]int{"a": 10})
	for i := range 5 {
		name := fmt.Sprint("0b"[i%2:], i) // before and behind a, by name
		enqueue(t, h, inGroup(name, 1)...)
		wantGroups(t, h, "claim beside the job of another group", request(2), map[string]int{"a": 1, name: 1})
	}
}

func testManyFullGroups(t *testing.T, h Harness) {
	const groups = 1500
	setRules(t, h, queue.Rule{Queue: "q", PerGroup: 1})
	enqueue(t, h, newJobs(2*groups, func(i int, j *queue.Job) { j.Group = fmt.Sprintf("%04d", i/2) })...)
	claimed := 0
	for range 4 {
		claimed += len(claim(t, h, request(2*groups)))
	}
	if claimed != groups {
		t.Fatalf("claimed %d jobs of %d groups with a limit of 1, want one each", claimed, groups)
	}
	for _, name := range []string{"0750a", "9", "0"} {
		enqueue(t, h, inGroup(name, 1)...)
		found := 0
		for range 3 {
			found += len(claim(t, h, request(5)))
		}
		if found != 1 {
			t.Fatalf("3 claims beside %d full groups: got %d jobs, want the one of group %s", groups, found, name)
		}
	}
}

// testManyBlockedGroups: a worker that is asleep runs a new job soon, though the jobs of thousands
// of other groups are not due, or of a kind that it does not handle.
func testManyBlockedGroups(t *testing.T, h Harness) {
	const groups = 3000
	setRules(t, h, queue.Rule{Queue: "q", PerGroup: 1})
	enqueue(t, h, newJobs(groups, func(i int, j *queue.Job) {
		j.Group, j.Kind, j.Delay = fmt.Sprintf("%04d", i), "unhandled", time.Duration(i%2)*time.Hour
	})...)
	done := make(chan string, groups)
	mux := queue.NewMux()
	mux.Handle("k", queue.HandlerFunc(func(_ context.Context, j *queue.Job) error { done <- j.Group; return nil }))
	ctx, cancel := context.WithCancel(t.Context())
	var worker sync.WaitGroup
	worker.Go(func() {
		w := engine.Worker{Backend: h.Queue, Handler: mux, Queues: []string{"q"}, Poll: time.Hour, Logger: slog.New(slog.DiscardHandler)}
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	defer worker.Wait()
	defer cancel()
	for _, name := range []string{"z", "1500a", "0"} {
		time.Sleep(100 * time.Millisecond) // the worker has fallen asleep, or is about to
		enqueue(t, h, inGroup(name, 1)...)
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatalf("beside %d groups without a job for the worker, the one of group %s did not run within %v", groups, name, patience)
		}
	}
}

func testUngroupedBehind(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", PerGroup: 2})
	enqueue(t, h, newJobs(1001, func(i int, j *queue.Job) { j.Priority, j.Delay = int32(-1-i%2), time.Hour })...)
	claimNone(t, h, "before the due jobs")
	enqueue(t, h, newJobs(20, func(i int, j *queue.Job) { j.Priority = int32(i%3) - 1 })...)
	for _, n := range []int{15, 5} {
		if got := claim(t, h, request(15)); len(got) != n {
			t.Fatalf("claim of 15 of 20 due jobs without a group: got %d jobs, want %d", len(got), n)
		}
	}
}

// testUnhandledHideNone: claims find a new job, one that has been due for long, and one of each
// priority behind thousands of due jobs that they may not claim.
func testUnhandledHideNone(t *testing.T, h Harness) {
	for i, c := range []struct {
		rule        queue.Rule
		heads, mine string
	}{
		{queue.Rule{Running: 50}, "", ""},
		{queue.Rule{Running: 50}, "a", "a"},
		{queue.Rule{PerGroup: 50}, "a", "a"},
		{queue.Rule{PerGroup: 50}, "a", ""},
		{queue.Rule{Share: 1}, "", ""},
	} {
		c.rule.Queue = fmt.Sprint("q", i)
		setRules(t, h, c.rule)
		enqueue(t, h, newJobs(6000, func(_ int, j *queue.Job) { j.Queue, j.Kind, j.Group = c.rule.Queue, "unhandled", c.heads })...)
		req := request(3)
		req.Queues, req.Kinds = []string{c.rule.Queue}, []string{"k", "z"}
		if got := claim(t, h, req); len(got) != 0 {
			t.Fatalf("%+v: claimed %v before there was a job of these kinds", c.rule, ids(got))
		}
		wanted := newJobs(4, func(n int, j *queue.Job) {
			j.Queue, j.Group, j.Priority = c.rule.Queue, c.mine, int32(max(n-1, 0)-1)
			if n == 1 {
				j.ScheduledAt = time.Now().Add(-time.Hour)
			}
		})
		enqueue(t, h, wanted...)
		var got []*queue.Job
		for i := 0; i < 50 && len(got) < len(wanted); i++ {
			got = append(got, claim(t, h, req)...)
		}
		got = append(got, claim(t, h, req)...) // finds no other job
		if len(got) != len(wanted) {
			t.Fatalf("%+v: 50 claims behind jobs of group %q: got %v, want %v", c.rule, c.heads, ids(got), ids(wanted))
		}
	}
}

// testOrderOfKinds: the jobs of a group are claimed in their order, whatever their kinds.
func testOrderOfKinds(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Share: 1})
	due := time.Now().Add(-time.Minute)
	jobs := newJobs(60, func(i int, j *queue.Job) {
		j.Group, j.Kind = "g", []string{"k", "a", "z", "A.b", "b"}[i*i%5]
		j.Priority, j.ScheduledAt = int32(i/20), due.Add(time.Duration(i)*time.Second)
	})
	enqueue(t, h, jobs[30:]...)
	enqueue(t, h, jobs[:30]...)
	for i := 0; i < len(jobs); i += 12 {
		wantIDs(t, "claim of five kinds", claim(t, h, request(12)), jobs[i:i+12])
	}
	enqueue(t, h, newJobs(40, func(i int, j *queue.Job) { j.Group, j.Kind = "g", []string{"k", "a", "z", "A.b"}[i%4] })...)
	req := request(30)
	req.Kinds = []string{"z", "none", "k"}
	got := claim(t, h, req)
	for i, j := range got {
		if want := req.Kinds[2-i%2*2]; j.Kind != want || len(got) != 20 {
			t.Fatalf("claim of two kinds: got %d jobs, and number %d of kind %q, want 20 and %q", len(got), i, j.Kind, want)
		}
	}
}

func testReclaimedPlace(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Running: 2, PerGroup: 1})
	enqueue(t, h, append(inGroup("a", 2), inGroup("b", 1)...)...)
	wantGroups(t, h, "claim", short(request(1)), map[string]int{"a": 1})
	time.Sleep(2 * shortLease)
	wantGroups(t, h, "claim beside an expired lease", request(10), map[string]int{"b": 1})
	claimNone(t, h, "before the reclaim")
	awaitReclaim(t, h, 1)
	wantGroups(t, h, "claim after the reclaim", request(10), map[string]int{"a": 1})
}

// gauge counts jobs that run, and keeps the highest count.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) add(n int64) {
	now := g.now.Add(n)
	for most := g.most.Load(); now > most && !g.most.CompareAndSwap(most, now); most = g.most.Load() {
	}
}

// runAll lets 8 claimers claim and complete jobs until they have done total jobs. started and ended
// are called between the claim of a job and its Settle.
func runAll(t *testing.T, h Harness, total int, started, ended func(j *queue.Job)) {
	var done atomic.Int64
	var claimers sync.WaitGroup
	stop := time.Now().Add(patience)
	for i := range 8 {
		claimers.Go(func() {
			req := request(3)
			req.Worker = fmt.Sprint("w", i)
			for done.Load() < int64(total) && time.Now().Before(stop) && !t.Failed() {
				jobs, err := h.Queue.Claim(t.Context(), req)
				if err != nil {
					t.Errorf("Claim: %v", err)
					return
				}
				for _, j := range jobs {
					started(j)
				}
				time.Sleep(time.Millisecond)
				for _, j := range jobs {
					ended(j)
				}
				lost, err := h.Queue.Settle(t.Context(), nil, outcomes(queue.Done, jobs...)...)
				if err != nil || len(lost) > 0 {
					t.Errorf("Settle: lost %v, error %v", ids(lost), err)
				}
				done.Add(int64(len(jobs)))
			}
		})
	}
	claimers.Wait()
	if done.Load() != int64(total) {
		t.Errorf("8 claimers did %d jobs in %v, want %d", done.Load(), patience, total)
	}
}

func testClaimersKeepLimits(t *testing.T, h Harness) {
	const total, groups = 400, 8
	setRules(t, h, queue.Rule{Queue: "q", Running: 7, PerGroup: 2}, queue.Rule{Queue: "q", Group: "g3", PerGroup: 1})
	enqueue(t, h, newJobs(total, func(i int, j *queue.Job) { j.Group = fmt.Sprint("g", i%groups) })...)
	var all gauge
	each := make(map[string]*gauge)
	for i := range groups {
		each[fmt.Sprint("g", i)] = new(gauge)
	}
	runAll(t, h, total,
		func(j *queue.Job) { all.add(1); each[j.Group].add(1) },
		func(j *queue.Job) { each[j.Group].add(-1); all.add(-1) })
	if most := all.most.Load(); most > 7 {
		t.Errorf("%d jobs ran at once, want at most 7", most)
	}
	for name, g := range each {
		limit := int64(2)
		if name == "g3" {
			limit = 1
		}
		if most := g.most.Load(); most > limit {
			t.Errorf("%d jobs of group %s ran at once, want at most %d", most, name, limit)
		}
	}
}

// testClaimersBesideChanges: while rules appear, change and go, each job still runs once, and no
// call fails.
func testClaimersBesideChanges(t *testing.T, h Harness) {
	const total = 400
	enqueue(t, h, newJobs(total, func(i int, j *queue.Job) { j.Group = []string{"a", "b", "c", ""}[i%4] })...)
	ctx, cancel := context.WithCancel(t.Context())
	var changes sync.WaitGroup
	changes.Go(func() {
		ruler, _ := driver.As[driver.Ruler](h.Queue)
		rules := []queue.Rule{{Running: 5}, {Share: 2}, {}, {PerGroup: 1}, {}, {Running: 6, PerGroup: 2}}
		for i := 0; ctx.Err() == nil; i++ {
			rule := rules[i%len(rules)]
			rule.Queue = "q"
			if err := ruler.SetRules(t.Context(), nil, rule); err != nil {
				t.Errorf("SetRules(%+v): %v", rule, err)
			}
			time.Sleep(3 * time.Millisecond)
		}
	})
	var seen sync.Map
	runAll(t, h, total, func(j *queue.Job) {
		if _, again := seen.LoadOrStore(j.ID, true); again {
			t.Errorf("job %d was claimed twice", j.ID)
		}
	}, func(*queue.Job) {})
	cancel()
	changes.Wait()
}

func testResumeWakes(t *testing.T, h Harness) {
	d := listens(t, h, "w", []string{"q"}, func() { enqueue(t, h, newJob()) })
	pauseQueue(t, h, nil, true)
	wantPrompt(t, h, d, "resuming", func() { pauseQueue(t, h, nil, false) })
}

// testFreePlaceWakes: two workers with one place between them both work. The one that has settled
// claims at once, and a worker that has stopped leaves its place to the other one.
func testFreePlaceWakes(t *testing.T, h Harness) {
	const total = 60
	setRules(t, h, queue.Rule{Queue: "q", Running: 1})
	enqueue(t, h, newJobs(total, nil)...)
	var done atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
		if done.Add(1) == total {
			cancel()
		}
		return nil
	})
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	var workers sync.WaitGroup
	for i, ctx := range []context.Context{short, ctx} {
		workers.Go(func() {
			w := engine.Worker{Backend: h.Queue, Handler: handler, Queues: []string{"q"}, Name: fmt.Sprint("w", i), Poll: time.Hour, Logger: slog.New(slog.DiscardHandler)}
			if err := w.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	workers.Wait()
	if done.Load() < total {
		t.Errorf("%d of %d jobs done one at a time within %v", done.Load(), total, patience)
	}
}
