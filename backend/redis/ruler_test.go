package redis_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestSpreadRules: a queue in several partitions can be paused, and its groups too. What each
// partition would have to count by itself is refused.
func TestSpreadRules(t *testing.T) {
	b := open(t, redistest.Open(t), redis.Options{Partitions: 4, Spread: 3})
	for field, r := range map[string]queue.Rule{
		"Running":   {Running: 1},
		"PerGroup":  {PerGroup: 1},
		"Share":     {Group: "g", Share: 1},
		"Rate":      {Rate: queue.Rate{Jobs: 1}},
		"GroupRate": {Group: "g", GroupRate: queue.Rate{Jobs: 1}},
	} {
		r.Queue = "q"
		err := b.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Paused: true}, r)
		if e, ok := errors.AsType[*queue.InvalidError](err); !ok || e.Field != field {
			t.Errorf("SetRules(%+v): got %v, want an InvalidError for %s", r, err, field)
		}
	}
	hold := queue.Rule{Queue: "q", OnDead: queue.HoldDead}
	if err := b.SetRules(t.Context(), nil, hold); err != nil {
		t.Fatal(err)
	}
	if rules, err := b.Rules(t.Context()); err != nil || len(rules) != 1 || rules[0] != hold {
		t.Fatalf("Rules: got %+v, error %v; want %+v alone", rules, err, hold)
	}
	for i := range 9 {
		jobs := newJobs(1)
		jobs[0].Group = []string{"a", "b", ""}[i/3]
		if err := b.Enqueue(t.Context(), nil, jobs...); err != nil {
			t.Fatal(err)
		}
	}
	pause := func(target queue.Target, paused bool) {
		t.Helper()
		if changed, err := b.Pause(t.Context(), nil, target, paused); !changed || err != nil {
			t.Fatalf("Pause(%s, %v): got %v, error %v", target, paused, changed, err)
		}
	}
	group := queue.Target{Group: "a", InQueue: "q"}
	pause(queue.Target{Queue: "q"}, true)
	wantClaim(t, b, 0)
	pause(queue.Target{Queue: "q"}, false)
	pause(group, true)
	wantClaim(t, b, 6)
	pause(group, false)
	wantClaim(t, b, 3)
}

// wantClaim claims 20 jobs of the queue "q" and checks that it gets n.
func wantClaim(t *testing.T, b *redis.Backend, n int) []*queue.Job {
	t.Helper()
	jobs, err := b.Claim(t.Context(), request(20))
	if err != nil || len(jobs) != n {
		t.Fatalf("Claim: got %d jobs, error %v; want %d", len(jobs), err, n)
	}
	return jobs
}

// TestManyMoved: of a queue with more jobs than one claim moves into lanes, no job is lost or
// hidden for ever, neither when its groups begin to take turns nor when they end it.
func TestManyMoved(t *testing.T) {
	b := open(t, redistest.Open(t), redis.Options{Partitions: 1})
	const total = 12_000
	jobs := newJobs(total)
	for i, j := range jobs {
		j.Group, j.Payload = fmt.Sprint("g", i%3), nil
	}
	enqueueAll(t, b, jobs)
	left := total
	for _, share := range []int{1, 0, 2, 0} {
		if err := b.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Share: share}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			left -= len(wantClaim(t, b, 20))
		}
	}
	for left > 0 {
		jobs, err := b.Claim(t.Context(), request(5000))
		if err != nil || len(jobs) == 0 {
			t.Fatalf("Claim: got %d jobs, error %v, with %d left", len(jobs), err, left)
		}
		left -= len(jobs)
	}
	if left < 0 {
		t.Errorf("claimed %d jobs more than there are", -left)
	}
}

// TestLostJobFreesPlace: a running job that the server has lost, as in a failover while its slot
// moved, keeps its place under a limit until its lease is over, and no longer.
func TestLostJobFreesPlace(t *testing.T) {
	client := redistest.Open(t)
	b := open(t, client, redis.Options{Partitions: 1})
	jobs := newJobs(3)
	for _, j := range jobs {
		j.Group = "g"
	}
	if err := errors.Join(b.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Running: 2, PerGroup: 1}), b.Enqueue(t.Context(), nil, jobs...)); err != nil {
		t.Fatal(err)
	}
	req := request(5)
	req.Lease = time.Millisecond
	held, err := b.Claim(t.Context(), req)
	if err != nil || len(held) != 1 {
		t.Fatalf("Claim: got %d jobs, error %v; want 1", len(held), err)
	}
	lost := fmt.Sprintf("{%s:0}:j:%d", redis.NamespaceOf(b), held[0].ID) // of one partition, IDs are numbers
	if err := client.Do(t.Context(), client.B().Del().Key(lost).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	wantClaim(t, b, 0)
	time.Sleep(2 * time.Millisecond)
	if got, err := b.Reclaim(t.Context(), 10); err != nil || len(got) != 0 {
		t.Fatalf("Reclaim: got %d jobs, error %v; want none", len(got), err)
	}
	wantClaim(t, b, 1)
	wantClaim(t, b, 0)
}

// TestTurnsAreForgotten: nothing is left of the turns of queues that have no rules any more.
func TestTurnsAreForgotten(t *testing.T) {
	client := redistest.Open(t)
	b := open(t, client, redis.Options{Partitions: 1})
	turns := func() int64 {
		t.Helper()
		n, err := client.Do(t.Context(), client.B().Hlen().Key("{"+redis.NamespaceOf(b)+":0}:turn").Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	job := newJobs(1)[0]
	job.Group = "g"
	if err := errors.Join(b.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Share: 2}), b.Enqueue(t.Context(), nil, job)); err != nil {
		t.Fatal(err)
	}
	wantClaim(t, b, 1)
	if n := turns(); n != 1 {
		t.Fatalf("the turn is in %d fields, want 1", n)
	}
	if err := b.SetRules(t.Context(), nil, queue.Rule{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	if n := turns(); n != 0 {
		t.Errorf("%d fields are left, want none", n)
	}
}

// TestManyRules: a call sets the rules of twenty thousand groups, of which two are given twice.
func TestManyRules(t *testing.T) {
	b := open(t, redistest.Open(t), redis.Options{})
	const n = 20_000
	rules := []queue.Rule{{Queue: "q", Group: "g7", PerGroup: 100}, {Queue: "q", Group: "g7", PerGroup: 200}}
	for i := range n {
		rules = append(rules, queue.Rule{Queue: "q", Group: fmt.Sprint("g", i), PerGroup: 1 + i%9})
	}
	rules = append(rules, queue.Rule{Queue: "q", Group: "g5", PerGroup: 300})
	began := time.Now()
	if err := b.SetRules(t.Context(), nil, rules...); err != nil {
		t.Fatal(err)
	}
	t.Logf("SetRules took %v", time.Since(began))
	all, err := b.Rules(t.Context())
	if err != nil || len(all) != n {
		t.Fatalf("Rules: got %d, error %v; want %d", len(all), err, n)
	}
	got := make(map[string]int)
	for _, r := range all {
		got[r.Group] = r.PerGroup
	}
	if got["g7"] != 8 || got["g5"] != 300 || got["g19999"] != 2 {
		t.Errorf("rules of g7, g5 and g19999: got %d, %d, %d; want 8, 300, 2", got["g7"], got["g5"], got["g19999"])
	}
}

// TestManyGroupsAtOnce: the jobs of ten thousand groups become due in one claim's look. Claims go
// on with the rest until all are found.
func TestManyGroupsAtOnce(t *testing.T) {
	extent.Long(t)
	b := open(t, redistest.Open(t), redis.Options{Partitions: 1})
	const n = 10_000
	jobs := newJobs(n)
	for i, j := range jobs {
		j.Group, j.Payload = fmt.Sprint("g", i), nil
	}
	if err := b.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
	for _, share := range []int{1, 0, 1} { // into lanes, back, and into lanes again
		if err := b.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Share: share}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		wantClaim(t, b, 20)
		t.Logf("share %d: the first claim took %v", share, time.Since(began))
	}
	for left := n - 60; left > 0; {
		some, err := b.Claim(t.Context(), request(2_000))
		if err != nil || len(some) == 0 {
			t.Fatalf("Claim with %d left: got %d jobs, error %v", left, len(some), err)
		}
		left -= len(some)
	}
}
