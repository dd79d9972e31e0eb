package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
)

// hourly returns n schedules of which a tick is far away.
func hourly(n int) (all []queue.Schedule) {
	for i := range n {
		minute := time.Now().UTC().Add(30 * time.Minute).Format("4")
		all = append(all, queue.Schedule{Name: fmt.Sprint("s", i), Spec: minute + " * * * *", Job: &queue.Job{Queue: "q", Kind: "k"}})
	}
	return all
}

// TestFiringIsTakenOver: the partition of some jobs does not answer when their ticks are fired. The
// other jobs are enqueued, and those when it answers again, each once.
func TestFiringIsTakenOver(t *testing.T) {
	const n = 16 // over two partitions
	p := newParted(t, redis.Options{})
	keys := keysOf(p.admin, p.Backend)
	if err := p.SetSchedules(t.Context(), nil, hourly(n)...); err != nil {
		t.Fatal(err)
	}
	keys.rewind(t, time.Hour)
	p.deny(t)
	fired, _, err := p.FireSchedules(t.Context())
	if err == nil || fired != n {
		t.Errorf("FireSchedules beside a partition that fails: got %d, error %v; want %d, and the error", fired, err, n)
	}
	early, err := p.Claim(t.Context(), request(n))
	if err != nil || len(early) == 0 || len(early) == n {
		t.Fatalf("Claim beside a partition that fails: got %d jobs, error %v; want some of %d", len(early), err, n)
	}
	p.allow(t)
	end := time.Now().Add(30 * time.Second)
	for len(keys.scores(t, "begun")) > 0 && time.Now().Before(end) {
		if again, _, err := p.FireSchedules(t.Context()); again != 0 || err != nil {
			t.Fatalf("FireSchedules when it answers again: got %d, error %v; want 0", again, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	late, err := p.Claim(t.Context(), request(n))
	if err != nil || len(early)+len(late) != n {
		t.Errorf("Claim at last: got %d jobs after %d, error %v; want %d in all", len(late), len(early), err, n)
	}
	all, err := p.Schedules(t.Context())
	if err != nil || len(all) != n {
		t.Fatalf("Schedules: got %d, error %v", len(all), err)
	}
	for _, s := range all {
		if s.LastJob == 0 || s.Skipped != 0 {
			t.Errorf("schedule %s: last job %d, %d skipped; want a job and none skipped", s.Name, s.LastJob, s.Skipped)
		}
	}
}

// TestTickAgain: a failover loses that a tick was fired, and its job has ended. The tick is not
// fired twice.
func TestTickAgain(t *testing.T) {
	b := open(t, redistest.Open(t), redis.Options{})
	keys := keysOf(redistest.Open(t), b)
	if err := b.SetSchedules(t.Context(), nil, hourly(1)...); err != nil {
		t.Fatal(err)
	}
	keys.rewind(t, time.Hour)
	before := keys.scores(t, "ticks")["s0"]
	fire := func(want int) {
		t.Helper()
		if n, _, err := b.FireSchedules(t.Context()); n != 1 || err != nil {
			t.Fatalf("FireSchedules: got %d, error %v; want 1", n, err)
		}
		jobs, err := b.Claim(t.Context(), request(10))
		if err != nil || len(jobs) != want {
			t.Fatalf("Claim: got %d jobs, error %v; want %d", len(jobs), err, want)
		}
		if _, err := b.Settle(t.Context(), nil, outcomesFor(jobs)...); err != nil {
			t.Fatal(err)
		}
	}
	fire(1)
	keys.do(t, "ZADD", keys.base+"ticks", fmt.Sprintf("%.0f", before), "s0")
	redis.ForgetTick(b)
	fire(0)
}
