package backendtest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var rulesCases = []testCase{
	{"set, list and remove", hasRuler | isInOrder, testRulesList},
	{"bad rules", hasRuler | isInOrder, testBadRules},
	{"of a rolled back transaction", hasRuler | hasTx | isInOrder, testRulesInTx},
	{"most running jobs of a queue", hasRuler | isInOrder, testRunning},
	{"most running jobs of each group", hasRuler | isInOrder, testPerGroup},
	{"jobs without a group", hasRuler | isInOrder, testNoGroup},
	{"a brief lease", hasRuler | isInOrder, testBriefLease},
	{"a limit below what runs", hasRuler | isInOrder, testLimitLowered},
	{"a group's own rule", hasRuler | isInOrder, testGroupRule},
	{"paused", hasRuler | isInOrder, testPaused},
	{"kinds within groups", hasRuler | isInOrder, testKindsWithinGroups},
	{"order within a queue and a group", hasRuler | isInOrder, testOrderWithRules},
	{"delay", hasRuler | isFull | isInOrder, testDelayWithRules},
	{"beside queues without rules", hasRuler | isInOrder, testRulesBeside},
	{"no job waits for a slot", hasRuler | isInOrder, testRulesAhead},
	{"bytes", hasRuler | isInOrder, testRulesBytes},
	{"a transaction claims none", hasRuler | hasTxClaimer | isInOrder, testRulesClaimTx},
}

// testBriefLease: a claim with the shortest lease takes jobs of a free queue and of a limited one,
// although a small part of that lease is less than a database takes to answer.
func testBriefLease(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "p", Running: 10})
	limited, free := newJob(), newJob()
	limited.Queue = "p"
	enqueue(t, h, free, limited)
	req := request(10)
	req.Queues, req.Lease = []string{"q", "p"}, time.Millisecond
	wantIDs(t, "claim for a millisecond", claim(t, h, req), []*queue.Job{free, limited})
}

func setRules(t *testing.T, h Harness, rules ...queue.Rule) {
	t.Helper()
	setRulesIn(t, h, nil, rules...)
}

func setRulesIn(t *testing.T, h Harness, db queue.DB, rules ...queue.Rule) {
	t.Helper()
	ruler, _ := driver.As[driver.Ruler](h.Queue)
	if err := ruler.SetRules(t.Context(), db, rules...); err != nil {
		t.Fatalf("SetRules(%+v): %v", rules, err)
	}
}

func wantRules(t *testing.T, h Harness, when string, want ...queue.Rule) {
	t.Helper()
	ruler, _ := driver.As[driver.Ruler](h.Queue)
	got, err := ruler.Rules(t.Context())
	if err != nil || !reflect.DeepEqual(append([]queue.Rule{}, got...), append([]queue.Rule{}, want...)) {
		t.Fatalf("Rules %s: got %+v, error %v; want %+v", when, got, err, want)
	}
}

// inGroup returns n jobs of the group.
func inGroup(group string, n int) []*queue.Job {
	return newJobs(n, func(_ int, j *queue.Job) { j.Group = group })
}

// wantGroups claims once and checks how many jobs of each group it gets.
func wantGroups(t *testing.T, h Harness, what string, req queue.ClaimRequest, want map[string]int) []*queue.Job {
	t.Helper()
	jobs := claim(t, h, req)
	got := make(map[string]int)
	for _, j := range jobs {
		got[j.Group]++
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%s: got jobs of the groups %v, want %v", what, got, want)
	}
	return jobs
}

func testRulesList(t *testing.T, h Harness) {
	wantRules(t, h, "of a new queue")
	setRules(t, h)
	limit := queue.Rule{Queue: "q", Running: 5, PerGroup: 2, Share: 3, OnDead: queue.HoldDead}
	acme := queue.Rule{Queue: "q", Group: "acme", PerGroup: -1, Share: 9}
	group := queue.Rule{Queue: "q", Group: "Zoé 漢", Share: 1}
	other := queue.Rule{Queue: "a", Share: 1}
	setRules(t, h, group, acme, limit, other)
	wantRules(t, h, "after SetRules", other, limit, group, acme)
	limit.Running = 7
	setRules(t, h, queue.Rule{Queue: "q", Running: 1}, limit, queue.Rule{Queue: "q", Group: "acme"}, queue.Rule{Queue: "none"})
	wantRules(t, h, "after a change", other, limit, group)
	setRules(t, h, queue.Rule{Queue: "q"}, queue.Rule{Queue: "q", Group: group.Group}, queue.Rule{Queue: "a"}, queue.Rule{Running: 1})
	wantRules(t, h, "of the default queue", queue.Rule{Queue: queue.DefaultQueue, Running: 1})
}

func testBadRules(t *testing.T, h Harness) {
	ruler, _ := driver.As[driver.Ruler](h.Queue)
	for field, rules := range map[string][]queue.Rule{
		"Queue":    {{Queue: "a\nb", Running: 1}, {Queue: "é", Running: 1}},
		"Group":    {{Queue: "q", Group: "a\x00", PerGroup: 1}, {Queue: "q", Group: string(make([]byte, 201)), PerGroup: 1}},
		"Running":  {{Queue: "q", Running: -1}, {Queue: "q", Running: 1_000_001}, {Queue: "q", Group: "g", Running: 1}},
		"PerGroup": {{Queue: "q", PerGroup: -1}, {Queue: "q", PerGroup: 1_000_001}, {Queue: "q", Group: "g", PerGroup: -2}},
		"OnDead":   {{Queue: "q", OnDead: "pass"}, {Queue: "q", Group: "g", OnDead: queue.HoldDead}},
		"Share":    {{Queue: "q", Share: -1}, {Queue: "q", Share: 1_000_001}},
	} {
		for _, r := range rules {
			err := ruler.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Running: 1}, r)
			wantInvalid(t, fmt.Sprintf("SetRules(%+v)", r), err, field)
		}
	}
	wantRules(t, h, "after bad ones")
	req := request(2)
	req.Ahead = 3
	_, err := h.Queue.Claim(t.Context(), req)
	wantInvalid(t, "Claim with an Ahead above the limit", err, "Ahead")
}

func testRulesInTx(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(5, nil)...)
	tx := begin(t, h)
	setRulesIn(t, h, tx, queue.Rule{Queue: "q", Running: 1})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	wantRules(t, h, "after a rollback")
	settle(t, h, outcomes(queue.Done, claim(t, h, request(2))...)...)
	tx = begin(t, h)
	setRulesIn(t, h, tx, queue.Rule{Queue: "q", Running: 1})
	if !h.OneWriter {
		settle(t, h, outcomes(queue.Done, claim(t, h, request(1))...)...)
	}
	commit(t, tx)
	wantGroups(t, h, "claim after the commit", request(10), map[string]int{"": 1})
}

func testRunning(t *testing.T, h Harness) {
	before := newJobs(2, nil)
	enqueue(t, h, append(before, newJobs(10, func(i int, j *queue.Job) { j.Group = []string{"a", ""}[i%2] })...)...)
	ran := claim(t, h, request(2)) // before there is a rule
	setRules(t, h, queue.Rule{Queue: "q", Running: 5})
	more := claim(t, h, request(10))
	if len(more) != 3 {
		t.Fatalf("claim beside 2 jobs that run, with a limit of 5: got %d jobs, want 3", len(more))
	}
	claimNone(t, h, "at the limit")
	settle(t, h, queue.Outcome{Job: ran[0], Action: queue.Done}, queue.Outcome{Job: ran[1], Action: queue.Retry},
		queue.Outcome{Job: more[0], Action: queue.Release}, queue.Outcome{Job: more[1], Action: queue.Dead})
	if got := claim(t, h, request(10)); len(got) != 4 {
		t.Fatalf("claim after 4 jobs were settled: got %d jobs, want 4", len(got))
	}
	claimNone(t, h, "at the limit again")
	setRules(t, h, queue.Rule{Queue: "q"})
	if got := claim(t, h, request(20)); len(got) == 0 || got[0].Limited {
		t.Fatalf("claim without the rule: got %d jobs, want the others, and not Limited", len(got))
	}
}

func testPerGroup(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Running: 10, PerGroup: 2})
	enqueue(t, h, slices.Concat(inGroup("a", 2000), inGroup("b", 1), inGroup("c", 5))...)
	held := wantGroups(t, h, "claim", request(20), map[string]int{"a": 2, "b": 1, "c": 2})
	claimNone(t, h, "of full groups")
	enqueue(t, h, inGroup("d", 1)...)
	wantGroups(t, h, "claim beside full groups", request(20), map[string]int{"d": 1})
	for _, j := range held {
		if j.Group == "a" {
			settle(t, h, queue.Outcome{Job: j, Action: queue.Done})
			wantGroups(t, h, "claim after one was settled", request(20), map[string]int{"a": 1})
		}
	}
}

// testNoGroup: jobs without a group have turns, too, and are not limited by PerGroup.
func testNoGroup(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", PerGroup: 2})
	enqueue(t, h, append(inGroup("a", 5), inGroup("", 5)...)...)
	wantGroups(t, h, "first claim", request(3), map[string]int{"a": 2, "": 1})
	wantGroups(t, h, "second claim", request(10), map[string]int{"": 4})
}

func testLimitLowered(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Running: 5})
	enqueue(t, h, newJobs(10, nil)...)
	held := claimAllLimited(t, h, 5)
	setRules(t, h, queue.Rule{Queue: "q", Running: 2})
	settle(t, h, outcomes(queue.Done, held[:3]...)...)
	claimNone(t, h, "at the lower limit")
	settle(t, h, outcomes(queue.Done, held[3:4]...)...)
	claimAllLimited(t, h, 1)
	setRules(t, h, queue.Rule{Queue: "q", Running: 4})
	claimAllLimited(t, h, 2)
}

func claimAllLimited(t *testing.T, h Harness, n int) []*queue.Job {
	t.Helper()
	return wantGroups(t, h, "claim up to the limit", request(20), map[string]int{"": n})
}

func testGroupRule(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", PerGroup: 1},
		queue.Rule{Queue: "q", Group: "large", PerGroup: 3},
		queue.Rule{Queue: "q", Group: "free", PerGroup: -1},
		queue.Rule{Queue: "q", Group: "more", Share: 2}, queue.Rule{Queue: "other", Group: "small", PerGroup: 4})
	for _, group := range []string{"large", "free", "more", "small"} {
		enqueue(t, h, inGroup(group, 5)...)
	}
	wantGroups(t, h, "claim", request(20), map[string]int{"large": 3, "free": 5, "more": 1, "small": 1})
	setRules(t, h, queue.Rule{Queue: "q"}, queue.Rule{Queue: "q", Group: "large"})
	wantGroups(t, h, "claim without the queue's rule", request(20), map[string]int{"large": 2, "more": 4, "small": 4})
}

func testPaused(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Paused: true})
	enqueue(t, h, append(inGroup("a", 2), inGroup("b", 2)...)...)
	claimNone(t, h, "of a paused queue")
	pauseQueue(t, h, nil, false)
	pauseGroup(t, h, "a", true)
	held := wantGroups(t, h, "claim beside a paused group", request(20), map[string]int{"b": 2})
	claimNone(t, h, "of a paused group")
	pauseGroup(t, h, "a", false)
	setRules(t, h, queue.Rule{Queue: "q", Paused: true, Running: 3})
	claimNone(t, h, "of a queue that is paused again")
	wantHeld(t, h, "in a paused queue", held...)
	pauseQueue(t, h, nil, false)
	wantGroups(t, h, "claim of a resumed queue", request(20), map[string]int{"a": 1})
}

func testKindsWithinGroups(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", PerGroup: 2})
	jobs := append(inGroup("a", 200), inGroup("b", 3)...)
	for _, j := range jobs[:197] {
		j.Kind = "unhandled"
	}
	enqueue(t, h, jobs...)
	req := request(20)
	req.Kinds = []string{"k", "other"}
	wantGroups(t, h, "claim of a kind", req, map[string]int{"a": 2, "b": 2})
	req.Kinds = []string{"unhandled"}
	if got := claim(t, h, req); len(got) != 0 {
		t.Fatalf("claim of a kind in a full group: got jobs %v, want none", ids(got))
	}
}

func testOrderWithRules(t *testing.T, h Harness) {
	for _, rule := range []queue.Rule{{Queue: "q", Running: 50}, {Queue: "q", Share: 2}} {
		setRules(t, h, rule)
		jobs := newJobs(9, func(i int, j *queue.Job) { j.Group, j.Priority = "g", int32(i%3)-1 })
		enqueue(t, h, jobs...)
		want := []*queue.Job{jobs[0], jobs[3], jobs[6], jobs[1], jobs[4], jobs[7], jobs[2], jobs[5], jobs[8]}
		first := claim(t, h, request(4))
		wantIDs(t, fmt.Sprintf("first claim with %+v", rule), first, want[:4])
		rest := claim(t, h, request(10))
		wantIDs(t, fmt.Sprintf("second claim with %+v", rule), rest, want[4:])
		settle(t, h, outcomes(queue.Done, append(first, rest...)...)...)
	}
}

// testDelayWithRules: jobs that are not due yet hide none that are less urgent, and are claimed
// when they are due.
func testDelayWithRules(t *testing.T, h Harness) {
	const later = 20
	rules := []queue.Rule{{Queue: "q", Running: 50}, {Queue: "p", Share: 1}}
	setRules(t, h, rules...)
	ask := func(rule queue.Rule, limit int) queue.ClaimRequest {
		req := request(limit)
		req.Queues = []string{rule.Queue}
		return req
	}
	for _, rule := range rules {
		jobs := newJobs(later, func(_ int, j *queue.Job) { j.Queue, j.Group, j.Delay = rule.Queue, "g", 2*time.Second })
		now := newJobs(2, func(i int, j *queue.Job) { j.Queue, j.Group, j.Priority = rule.Queue, "g", int32(i+1) })
		enqueue(t, h, append(jobs, now...)...)
		wantIDs(t, fmt.Sprintf("claim with %+v", rule), claim(t, h, ask(rule, 10)), now)
	}
	for _, rule := range rules {
		claimSoon(t, h, ask(rule, 30), later)
	}
}

func testRulesBeside(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "limited", Running: 2})
	var first, limited, last []*queue.Job
	for range 5 {
		for _, name := range []string{"first", "limited", "last"} {
			j := newJob()
			j.Queue = name
			enqueue(t, h, j)
			switch name {
			case "first":
				first = append(first, j)
			case "limited":
				limited = append(limited, j)
			default:
				last = append(last, j)
			}
		}
	}
	req := request(20)
	req.Queues = []string{"first", "limited", "last", "limited"}
	got := claim(t, h, req)
	wantIDs(t, "claim of three queues, one of them limited", got, slices.Concat(first, limited[:2], last))
	for _, j := range got {
		if j.Limited != (j.Queue == "limited") {
			t.Errorf("job of queue %q: Limited is %v", j.Queue, j.Limited)
		}
	}
}

// testRulesAhead: where a rule limits how many jobs run, a claim takes jobs only for slots that are
// free. Turns alone do not limit them.
func testRulesAhead(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", PerGroup: 50}, queue.Rule{Queue: "r", Running: 50}, queue.Rule{Queue: "turns", Share: 1})
	enqueue(t, h, newJobs(40, func(i int, j *queue.Job) { j.Queue = []string{"q", "r", "s", "turns"}[i%4] })...)
	req := request(8)
	req.Queues, req.Ahead = []string{"q", "r", "s"}, 5
	count := make(map[string]int)
	for _, j := range claim(t, h, req) {
		count[j.Queue]++
	}
	if want := map[string]int{"q": 3, "s": 5}; !maps.Equal(count, want) {
		t.Fatalf("claim of 8 jobs, 5 of them ahead: got %v, want %v", count, want)
	}
	req.Queues, req.Ahead = []string{"r"}, 8
	if got := claim(t, h, req); len(got) != 0 {
		t.Fatalf("claim ahead of a limited queue: got jobs %v, want none", ids(got))
	}
	req.Queues, req.Ahead = []string{"turns"}, 5
	got := claim(t, h, req)
	if len(got) != 8 || got[0].Limited {
		t.Fatalf("claim of 8 jobs, 5 of them ahead, of groups that take turns: got %d jobs, want 8 that are not Limited", len(got))
	}
	setRules(t, h, queue.Rule{Queue: "turns", Group: "acme", PerGroup: 1})
	if got := claim(t, h, req); len(got) != 2 || !got[0].Limited {
		t.Fatalf("the same with a limit of one group: got %d jobs, want the last 2, Limited", len(got))
	}
}

// testRulesBytes: a claim of a limited queue ends before the first job that does not fit.
func testRulesBytes(t *testing.T, h Harness) {
	for _, rule := range []queue.Rule{{Queue: "q", Running: 100}, {Queue: "q", Share: 3}} {
		setRules(t, h, rule)
		enqueue(t, h, newJobs(10, func(i int, j *queue.Job) {
			j.Group = fmt.Sprint(i % 3)
			j.Payload = fmt.Appendf(nil, `"%01000d"`, i)
		})...)
		req := request(10)
		req.Bytes = 4500
		var all []*queue.Job
		for range 10 {
			got := claim(t, h, req)
			if len(got) > 4 {
				t.Fatalf("claim of at most 4,500 bytes with %+v: got %d jobs of 1,000 bytes", rule, len(got))
			}
			all = append(all, got...)
		}
		if len(all) != 10 {
			t.Fatalf("claims of at most 4,500 bytes with %+v: got %d jobs, want 10", rule, len(all))
		}
		settle(t, h, outcomes(queue.Done, all...)...)
	}
}

func testRulesClaimTx(t *testing.T, h Harness) {
	claimer, _ := driver.As[driver.TxClaimer](h.Queue)
	setRules(t, h, queue.Rule{Queue: "q", Running: 1})
	enqueue(t, h, newJob())
	req := queue.ClaimRequest{Queues: []string{"p", "q"}}
	tx := begin(t, h)
	_, err := claimer.ClaimTx(t.Context(), tx, req)
	wantInvalid(t, "ClaimTx of a limited queue", err, "Queues")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	setRules(t, h, queue.Rule{Queue: "q"})
	tx = begin(t, h)
	if job, err := claimer.ClaimTx(t.Context(), tx, req); err != nil || job == nil {
		t.Fatalf("ClaimTx without the rule: got %v, error %v; want the job", job, err)
	}
	commit(t, tx)
}
