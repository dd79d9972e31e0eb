package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

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

// ticking is a schedule with MissedAll whose ticks are an hour apart, the next one in 30 minutes.
type ticking struct {
	keys
	next time.Time
}

func newTicking(t *testing.T, spread int) ticking {
	t.Helper()
	b := open(t, redistest.Open(t), redis.Options{Spread: spread})
	next := time.Now().UTC().Add(30 * time.Minute).Truncate(time.Minute)
	return ticking{keysOf(redistest.Open(t), b), next}
}

// set makes the schedule have another expression.
func (k ticking) set(t *testing.T, spec string) {
	t.Helper()
	s := queue.Schedule{Name: "s", Spec: spec, Missed: queue.MissedAll, Overlap: true, Job: &queue.Job{Queue: "q", Kind: "k"}}
	if err := k.b.SetSchedules(t.Context(), nil, s); err != nil {
		t.Fatal(err)
	}
}

// from makes that tick the next one.
func (k ticking) from(t *testing.T, tick time.Time) {
	t.Helper()
	k.do(t, "ZADD", k.base+"ticks", fmt.Sprint(tick.UnixMicro()), "s")
	redis.ForgetTick(k.b)
}

// fire fires what is due, and runs the jobs: it wants so many.
func (k ticking) fire(t *testing.T, want int) {
	t.Helper()
	redis.ForgetTick(k.b)
	if n, _, err := k.b.FireSchedules(t.Context()); err != nil {
		t.Fatalf("FireSchedules: got %d, error %v", n, err)
	}
	jobs, err := k.b.Claim(t.Context(), request(200))
	if err != nil || len(jobs) != want {
		t.Fatalf("Claim: got %d jobs, error %v; want %d", len(jobs), err, want)
	}
	if want == 0 {
		return
	}
	if _, err := k.b.Settle(t.Context(), nil, outcomesFor(jobs)...); err != nil {
		t.Fatal(err)
	}
}

// TestTickAgain: a failover loses that ticks were begun, when their jobs have ended. No tick is
// fired twice, and none is left out.
func TestTickAgain(t *testing.T) {
	for _, spread := range []int{1, 8} {
		for name, test := range ticksAgain {
			t.Run(fmt.Sprintf("%s, spread %d", name, spread), func(t *testing.T) { test(t, newTicking(t, spread)) })
		}
	}
}

var ticksAgain = map[string]func(*testing.T, ticking){
	"one": func(t *testing.T, k ticking) {
		k.set(t, hourlyAt(k.next))
		k.from(t, k.next.Add(-time.Hour))
		k.fire(t, 1)
		k.from(t, k.next.Add(-time.Hour))
		k.fire(t, 0)
	},
	// Three more have come meanwhile, and numbers of firings begin below those that are lost.
	"the first of several": func(t *testing.T, k ticking) {
		first := k.next.Add(-4 * time.Hour)
		k.set(t, fmt.Sprintf("%d %d * * *", first.Minute(), first.Hour()))
		k.do(t, "HSET", k.base+"meta", "firing", "5000000000000000")
		k.from(t, first)
		k.fire(t, 1)
		k.do(t, "HDEL", k.base+"meta", "firing")
		k.set(t, hourlyAt(k.next))
		k.from(t, first)
		k.fire(t, 3)
	},
	"the last of several": func(t *testing.T, k ticking) {
		k.set(t, hourlyAt(k.next))
		k.from(t, k.next.Add(-time.Hour))
		k.fire(t, 1)
		k.from(t, k.next.Add(-4*time.Hour))
		k.fire(t, 3)
	},
	"many": func(t *testing.T, k ticking) {
		k.set(t, hourlyAt(k.next))
		for _, hours := range []time.Duration{50, 100} {
			k.from(t, k.next.Add(-hours*time.Hour))
			k.fire(t, 50)
		}
		k.from(t, k.next.Add(-100*time.Hour))
		k.fire(t, 0)
	},
	"the firing is still begun": func(t *testing.T, k ticking) {
		k.set(t, hourlyAt(k.next))
		first := k.next.Add(-4 * time.Hour)
		k.from(t, first)
		k.fire(t, 4)
		k.begin(t, first, 4, time.Now())
		k.fire(t, 0)
		k.wantEnded(t)
	},
	"the firing is still begun, and older than what is remembered": func(t *testing.T, k ticking) {
		k.set(t, hourlyAt(k.next))
		first := k.next.Add(-200 * time.Hour)
		for _, tag := range redis.TagsOf(k.b, "q") {
			k.eval(t, tag+"fired:s", fullFired, fmt.Sprint(k.next.UnixMicro()))
		}
		k.begin(t, first, 4, first.Add(3*time.Hour))
		k.fire(t, 0)
		k.wantEnded(t)
	},
	"as an older version stored it": func(t *testing.T, k ticking) {
		k.set(t, hourlyAt(k.next))
		last := k.next.Add(-time.Hour)
		for _, tag := range redis.TagsOf(k.b, "q") {
			k.eval(t, tag+"fired:s", `redis.call('SET', KEYS[1], cmsgpack.pack { 7, ARGV[1], { { '5', 0 } } })`, fmt.Sprint(last.UnixMicro()))
		}
		k.from(t, k.next.Add(-3*time.Hour))
		k.fire(t, 2)
		k.from(t, k.next.Add(-3*time.Hour))
		k.fire(t, 0)
	},
}

// hourlyAt returns the expression of ticks at the minute of at.
func hourlyAt(at time.Time) string { return fmt.Sprintf("%d * * * *", at.Minute()) }

// fullFired makes a partition remember the last hundred ticks of a schedule. ARGV[1] is the next
// one.
const fullFired = `local fired = {}
for i = 100, 1, -1 do fired[#fired + 1] = { ARGV[1] - i * 3600000000, { '5', 0 } } end
redis.call('SET', KEYS[1], cmsgpack.pack(fired))`

// begin notes a firing that was begun, of n ticks up to that time, as lua/schedule.lua does with
// the ticks, and did without them before November 28, 2026.
func (k ticking) begin(t *testing.T, first time.Time, n int, at time.Time, ticks ...time.Time) {
	t.Helper()
	var all []string
	for _, tick := range ticks {
		all = append(all, fmt.Sprint(tick.UnixMicro()))
	}
	stored := k.do(t, "HGET", k.base+"schedules", "s")
	row, err := stored.ToString()
	if err != nil {
		t.Fatal(err)
	}
	k.eval(t, k.base+"firings", `redis.call('HSET', KEYS[1], 's', cmsgpack.pack { 7, ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] })`,
		fmt.Sprint(at.UnixMicro()), fmt.Sprint(n), fmt.Sprint(first.UnixMicro()), row, strings.Join(all, ","))
	k.do(t, "ZADD", k.base+"begun", "1", "s")
}

func (k ticking) wantEnded(t *testing.T) {
	t.Helper()
	if n := len(k.scores(t, "begun")); n != 0 {
		t.Errorf("firings that are not ended: got %d, want 0", n)
	}
}

// eval runs a script on a key.
func (k ticking) eval(t *testing.T, key, script string, args ...string) {
	t.Helper()
	err := k.client.Do(t.Context(), k.client.B().Eval().Script(script).Numkeys(1).Key(key).Arg(args...).Build()).Error()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
}

// TestBrokenSchedules: schedules that cannot be fired are named, and do not keep others from being
// fired: their rows, or their jobs, cannot be read.
func TestBrokenSchedules(t *testing.T) {
	b := open(t, redistest.Open(t), redis.Options{})
	k := ticking{keys: keysOf(redistest.Open(t), b)}
	if err := b.SetSchedules(t.Context(), nil, hourly(12)...); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]string{
		"s1": `no JSON`,
		"s2": `{"name":"s2","spec":5}`,
		"s3": `{"name":"s3","spec":"x","job":{"kind":"k"}}`,
		"s4": `{"name":"s4","spec":"@hourly","zone":"Mars/Phobos","job":{"kind":"k"}}`,
		"s5": `{"name":"s5","spec":"@hourly","job":{}}`,
		"s6": `{"name":"s6","spec":"*/90 * * * *","job":{"kind":"k"}}`, // taken once
		"s7": `{"name":"s7","spec":"@hourly","zone":"localtime","job":{"kind":"k"}}`,
	} {
		k.do(t, "HSET", k.base+"schedules", name, row)
	}
	k.rewind(t, time.Hour)
	fired := 0
	var problems []string
	for range 20 {
		redis.ForgetTick(b)
		n, _, err := b.FireSchedules(t.Context())
		if fired += n; err != nil {
			problems = append(problems, err.Error())
		}
	}
	all := strings.Join(problems, "\n")
	for _, name := range []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7"} {
		if !strings.Contains(all, `"`+name+`"`) {
			t.Errorf("no error names schedule %s: %s", name, all)
		}
	}
	jobs, err := b.Claim(t.Context(), request(20))
	if err != nil || len(jobs) != 5 || fired != 5 {
		t.Errorf("five schedules beside seven broken ones: fired %d, got %d jobs, error %v", fired, len(jobs), err)
	}
	if records, err := b.Schedules(t.Context()); err != nil || len(records) != 12 {
		t.Errorf("Schedules: got %d, error %v; want 12", len(records), err)
	}
	for i := 1; i <= 7; i++ {
		if changed, err := b.Pause(t.Context(), nil, queue.Target{Schedule: "s" + strconv.Itoa(i)}, true); !changed || err != nil {
			t.Errorf("Pause of the broken schedule %d: got %v, error %v", i, changed, err)
		}
	}
}

// TestFiringNoteLost: notes of firings are damaged or lost. An error names their schedules, which
// go on, and so do all others.
func TestFiringNoteLost(t *testing.T) {
	b := open(t, redistest.Open(t), redis.Options{})
	k := ticking{keys: keysOf(redistest.Open(t), b)}
	if err := b.SetSchedules(t.Context(), nil, hourly(5)...); err != nil {
		t.Fatal(err)
	}
	k.do(t, "HSET", k.base+"firings", "s0", "damaged", "s1", "")
	k.eval(t, k.base+"firings", `redis.call('HSET', KEYS[1], 's2', cmsgpack.pack { 7, '1', '1', '1', 'no JSON' })`)
	k.do(t, "ZADD", k.base+"begun", "1", "s0", "1", "s1", "1", "s2", "1", "s3") // of s3 there is no note
	k.rewind(t, time.Hour)
	var problems []string
	fired := 0
	for range 3 {
		redis.ForgetTick(b)
		n, _, err := b.FireSchedules(t.Context())
		if fired += n; err != nil {
			problems = append(problems, err.Error())
		}
	}
	if all := strings.Join(problems, "\n"); len(problems) != 1 || strings.Count(all, "the note of a firing cannot be read") != 4 {
		t.Errorf("got errors %s; want one, with four schedules", all)
	}
	jobs, err := b.Claim(t.Context(), request(20))
	if err != nil || len(jobs) != 5 || fired != 5 {
		t.Errorf("got %d fired, %d jobs, error %v; want 5", fired, len(jobs), err)
	}
	k.wantEnded(t)
}
