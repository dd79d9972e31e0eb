package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// fire fires what is due, and checks how many schedules that were.
func fire(t *testing.T, h Harness, want int) (next time.Duration) {
	t.Helper()
	fired := 0
	for {
		n, after, err := runner(h).FireSchedules(t.Context())
		if err != nil {
			t.Fatalf("FireSchedules: %v", err)
		}
		if fired += n; n == 0 || fired >= want {
			next = after
			break
		}
	}
	if fired != want {
		t.Fatalf("FireSchedules: got %d, want %d", fired, want)
	}
	return next
}

// wantTicks claims the jobs of the queue "q", and checks that they are of those ticks of the
// schedule.
func wantTicks(t *testing.T, h Harness, when, name string, want ...time.Time) []*queue.Job {
	t.Helper()
	jobs := inTickOrder(h, claim(t, h, request(200)))
	ok := len(jobs) == len(want)
	var got []string
	for i, j := range jobs {
		schedule, tick, has := queue.TickOf(j)
		got = append(got, schedule+" "+tick.String())
		ok = ok && has && schedule == name && tick.Equal(want[i])
	}
	if !ok {
		t.Fatalf("jobs of schedule %s %s: got %q, want %v", name, when, got, want)
	}
	return jobs
}

// inTickOrder orders claimed jobs by their ticks where claims keep no order of a whole queue.
func inTickOrder(h Harness, jobs []*queue.Job) []*queue.Job {
	if h.Spread {
		slices.SortFunc(jobs, func(a, b *queue.Job) int {
			return strings.Compare(a.Headers[queue.TickHeader], b.Headers[queue.TickHeader])
		})
	}
	return jobs
}

func testFire(t *testing.T, h Harness) {
	s := schedule("a")
	s.Job.Priority, s.Job.MaxAttempts, s.Job.Headers = 3, 7, map[string]string{"x": "y"}
	setSchedules(t, h, nil, s)
	next := fire(t, h, 0)
	if next < 25*time.Minute || next > 35*time.Minute {
		t.Errorf("FireSchedules before the first tick: got next %v, want half an hour", next)
	}
	first := listSchedules(t, h, 1)[0].Next
	h.Rewind(t, time.Hour)
	next = fire(t, h, 1)
	if next < 25*time.Minute || next > 35*time.Minute {
		t.Errorf("FireSchedules at a tick: got next %v, want half an hour", next)
	}
	tick := first.Add(-time.Hour)
	j := wantTicks(t, h, "after a tick", "a", tick)[0]
	if j.Kind != "k" || j.Priority != 3 || j.MaxAttempts != 7 || j.Headers["x"] != "y" || j.Key != "cron:a" {
		t.Errorf("job of a schedule: got %+v", j)
	}
	got := listSchedules(t, h, 1)[0]
	if !got.Next.Equal(first) || !got.LastTick.Equal(tick) || got.LastJob != j.ID || got.Skipped != 0 || got.Version != 1 {
		t.Errorf("schedule after a tick: got %+v; want next %v, last %v", got, first, tick)
	}
	if _, _, ok := queue.TickOf(newJob()); ok {
		t.Error("TickOf of a job without a schedule: got true")
	}
	setSchedules(t, h, nil, s) // an edit does not fire again
	fire(t, h, 0)
}

// manyDue sets n schedules of which a tick is due.
func manyDue(t *testing.T, h Harness, n int) {
	t.Helper()
	var all []queue.Schedule
	for i := range n {
		s := schedule(fmt.Sprintf("s%03d", i))
		s.Overlap = true
		all = append(all, s)
	}
	setSchedules(t, h, nil, all...)
	h.Rewind(t, time.Hour)
}

// wantEach checks that each of n schedules has enqueued one job, and not tried to enqueue a second
// one.
func wantEach(t *testing.T, h Harness, n int) {
	t.Helper()
	seen := make(map[string]int)
	for _, j := range claim(t, h, request(n+100)) {
		name, _, _ := queue.TickOf(j)
		seen[name]++
	}
	for _, s := range listSchedules(t, h, n) {
		if seen[s.Name] != 1 || s.Skipped != 0 || s.LastJob == 0 {
			t.Errorf("schedule %s: enqueued %d jobs, and %d that were duplicates; want 1, 0", s.Name, seen[s.Name], s.Skipped)
		}
	}
}

func testFireTogether(t *testing.T, h Harness) {
	const n = 300
	manyDue(t, h, n)
	total := fireAll(t, h, n, func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) })
	if total != n {
		t.Errorf("eight callers have fired %d times, want %d", total, n)
	}
	wantEach(t, h, n)
}

// fireAll has eight callers fire until all n schedules have been fired, with contexts that with
// returns. It returns how many they say that they have fired.
func fireAll(t *testing.T, h Harness, n int, with func() (context.Context, context.CancelFunc)) (total int) {
	t.Helper()
	var callers sync.WaitGroup
	var mu sync.Mutex
	for range 8 {
		callers.Go(func() {
			for end := time.Now().Add(patience); time.Now().Before(end); {
				ctx, cancel := with()
				fired, next, err := runner(h).FireSchedules(ctx)
				cancel()
				if err != nil && ctx.Err() == nil {
					t.Errorf("FireSchedules: %v", err)
					return
				}
				mu.Lock()
				total += fired
				mu.Unlock()
				if err == nil && fired == 0 && next > time.Minute {
					return
				}
			}
			t.Errorf("not all of %d schedules were fired within %v", n, patience)
		})
	}
	callers.Wait()
	return total
}

// testFireCrash: callers are interrupted anywhere between the look for what is due and the end.
// Nothing is fired twice, and nothing is left out.
func testFireCrash(t *testing.T, h Harness) {
	const n = 100
	manyDue(t, h, n)
	var mu sync.Mutex
	calls := 0
	fireAll(t, h, n, func() (context.Context, context.CancelFunc) {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls > 200 {
			return context.WithCancel(t.Context())
		}
		return context.WithTimeout(t.Context(), rand.N(10*time.Millisecond))
	})
	wantEach(t, h, n)
}

// testMissedInZone: after three days without a worker the job is of the last tick in the schedule's
// zone, and so is the next tick. Tokyo's clocks do not change.
func testMissedInZone(t *testing.T, h Harness) {
	s := schedule("a")
	s.Spec, s.Zone = "0 9 * * *", "Asia/Tokyo"
	setSchedules(t, h, nil, s)
	next := listSchedules(t, h, 1)[0].Next
	h.Rewind(t, 72*time.Hour)
	fire(t, h, 1)
	wantTicks(t, h, "after three days", "a", next.Add(-24*time.Hour))
	if got := listSchedules(t, h, 1)[0].Next; !got.Equal(next) {
		t.Errorf("next tick after three days: got %v, want %v", got, next)
	}
}

// testMissed: the policies after three hours without a worker. The last tick is half an hour old.
func testMissed(t *testing.T, h Harness) {
	const absence = 3 * time.Hour
	for _, c := range []struct {
		missed queue.MissedPolicy
		grace  time.Duration
		back   []time.Duration // the wanted ticks, before the next one
	}{
		{"", 0, []time.Duration{time.Hour}},
		{queue.MissedLast, time.Hour, []time.Duration{time.Hour}},
		{queue.MissedLast, 10 * time.Minute, nil},
		{queue.MissedSkip, 0, nil},
		{queue.MissedSkip, time.Hour, []time.Duration{time.Hour}},
		{queue.MissedAll, 0, []time.Duration{3 * time.Hour, 2 * time.Hour, time.Hour}},
		{queue.MissedAll, 100 * time.Minute, []time.Duration{2 * time.Hour, time.Hour}},
	} {
		s := schedule("a")
		s.Missed, s.Grace = c.missed, c.grace
		setSchedules(t, h, nil, s)
		next := listSchedules(t, h, 1)[0].Next
		h.Rewind(t, absence)
		fire(t, h, 1)
		var want []time.Time
		for _, back := range c.back {
			want = append(want, next.Add(-back))
		}
		jobs := wantTicks(t, h, fmt.Sprintf("with Missed %q, Grace %v", c.missed, c.grace), "a", want...)
		settle(t, h, outcomes(queue.Done, jobs...)...)
		if got := listSchedules(t, h, 1)[0]; !got.Next.Equal(next) {
			t.Errorf("with Missed %q: next tick is %v, want %v", c.missed, got.Next, next)
		}
	}
	s := queue.Schedule{Name: "a", Spec: "* * * * *", Missed: queue.MissedAll, Job: newJob()}
	setSchedules(t, h, nil, s)
	h.Rewind(t, absence)
	fire(t, h, 1)
	if jobs := claim(t, h, request(200)); len(jobs) != 100 {
		t.Errorf("180 missed ticks: got %d jobs, want the last 100", len(jobs))
	}
}

// testMissedMany: ticks that were missed are all fired, each once and in order, also where their
// payloads are too long for one batch.
func testMissedMany(t *testing.T, h Harness) {
	job := newJob()
	job.Payload = json.RawMessage(`"` + strings.Repeat("x", 150_000) + `"`)
	setSchedules(t, h, nil, queue.Schedule{Name: "a", Spec: "* * * * *", Missed: queue.MissedAll, Job: job})
	began := time.Now().Truncate(time.Minute)
	h.Rewind(t, 3*time.Hour)
	last := listSchedules(t, h, 1)[0].Next
	for fired := 1; fired > 0; {
		var err error
		if fired, _, err = runner(h).FireSchedules(t.Context()); err != nil {
			t.Fatalf("FireSchedules: %v", err)
		}
		next := listSchedules(t, h, 1)[0].Next
		if fired > 0 && !next.After(last) {
			t.Fatalf("after a batch: next tick is %v, before it %v", next, last)
		}
		last = next
	}
	var all []*queue.Job
	for {
		jobs := claim(t, h, request(200))
		if len(jobs) == 0 {
			break
		}
		all = append(all, jobs...)
		settle(t, h, outcomes(queue.Done, jobs...)...)
	}
	var ticks []time.Time
	for _, j := range inTickOrder(h, all) {
		_, tick, _ := queue.TickOf(j)
		ticks = append(ticks, tick)
	}
	for i, tick := range ticks {
		if i > 0 && tick.Sub(ticks[i-1]) != time.Minute {
			t.Errorf("tick %d is %v, and the one before it %v; want a minute between them", i, tick, ticks[i-1])
		}
	}
	most := 100 + int(time.Now().Truncate(time.Minute).Sub(began)/time.Minute) // with those that came meanwhile
	if n := len(ticks); n < 100 || n > most || !ticks[n-1].Equal(last.Add(-time.Minute)) {
		t.Errorf("180 missed ticks: got %d jobs, want the last 100 before %v", n, last)
	}
}

// testFireForeign: a tick that is no time of the Spec, as a process with other time zone data
// stores it, is fired with a warning. The time that it stands for is left out.
func testFireForeign(t *testing.T, h Harness) {
	const zone = "Asia/Kolkata" // its clocks do not change
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	spec := time.Now().Add(time.Hour).In(loc).Format("4 15 * * *")
	setSchedules(t, h, nil, queue.Schedule{Name: "a", Spec: spec, Zone: zone, Job: newJob()})
	twin := listSchedules(t, h, 1)[0].Next
	h.Rewind(t, 2*time.Hour)
	fired, _, err := runner(h).FireSchedules(t.Context())
	if fired != 1 || !driver.IsForeignTick(err) || !strings.Contains(err.Error(), "data of zone "+zone) {
		t.Errorf("FireSchedules: got %d, error %v; want 1, and the warning alone, which names the zone", fired, err)
	}
	wantTicks(t, h, "of other time zone data", "a", twin.Add(-2*time.Hour))
	if got := listSchedules(t, h, 1)[0].Next; !got.Equal(twin.Add(24 * time.Hour)) {
		t.Errorf("next tick is %v, want %v", got, twin.Add(24*time.Hour))
	}
	fire(t, h, 0)
}

// testFirePileUp: a tick whose job is a duplicate counts as fired, and the schedule tells.
func testFirePileUp(t *testing.T, h Harness) {
	s := schedule("a")
	setSchedules(t, h, nil, s)
	next := listSchedules(t, h, 1)[0].Next
	h.Rewind(t, time.Hour)
	fire(t, h, 1)
	h.Rewind(t, time.Hour)
	fire(t, h, 1)
	j := wantTicks(t, h, "after two ticks", "a", next.Add(-time.Hour))[0]
	got := listSchedules(t, h, 1)[0]
	if got.Skipped != 1 || got.LastJob != j.ID || !got.Next.Equal(next) {
		t.Errorf("after two ticks: got %+v; want 1 skipped, last job %d", got, j.ID)
	}
	settle(t, h, queue.Outcome{Job: j})
	h.Rewind(t, time.Hour)
	fire(t, h, 1)
	settle(t, h, outcomes(queue.Done, claimAll(t, h, 1)...)...)
	s.Overlap = true
	setSchedules(t, h, nil, s)
	for _, by := range []time.Duration{2 * time.Hour, time.Hour} {
		h.Rewind(t, by)
		fire(t, h, 1)
	}
	if jobs := claim(t, h, request(10)); len(jobs) != 1 { // both fire the last tick before now
		t.Errorf("one tick that was fired twice: got %d jobs", len(jobs))
	}
}

// testFireEdited: four callers fire while a person edits, pauses and resumes. No tick is fired
// twice.
func testFireEdited(t *testing.T, h Harness) {
	s := queue.Schedule{Name: "a", Spec: "@every 1s", Overlap: true, Job: newJob()}
	setSchedules(t, h, nil, s)
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if _, _, err := runner(h).FireSchedules(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("FireSchedules: %v", err)
				}
				time.Sleep(rand.N(3 * time.Millisecond))
			}
		})
	}
	pauser, _ := driver.As[driver.Pauser](h.Queue)
	for i := 0; ctx.Err() == nil; i++ {
		s.Spec = []string{"@every 1s", "* * * * *"}[i/20%2]
		err := scheduler(h).SetSchedules(ctx, nil, s)
		if i%3 == 0 && err == nil {
			_, err = pauser.Pause(ctx, nil, queue.Target{Schedule: "a"}, true)
			_, again := pauser.Pause(ctx, nil, queue.Target{Schedule: "a"}, false)
			err = errors.Join(err, again)
		}
		if err != nil && ctx.Err() == nil {
			t.Errorf("a change: %v", err)
		}
		time.Sleep(rand.N(200 * time.Millisecond))
	}
	callers.Wait()
	ticks := make(map[time.Time]bool)
	for _, j := range claim(t, h, request(100)) {
		_, tick, _ := queue.TickOf(j)
		if ticks[tick] {
			t.Errorf("tick %v was fired twice", tick)
		}
		ticks[tick] = true
	}
	if got := listSchedules(t, h, 1)[0]; got.Skipped != 0 {
		t.Errorf("%d ticks were fired again", got.Skipped)
	}
}

// testFireBeside: a schedule that an open transaction has changed is fired after it, and others are
// not kept waiting.
func testFireBeside(t *testing.T, h Harness) {
	setSchedules(t, h, nil, schedule("a"), schedule("b"))
	h.Rewind(t, time.Hour)
	tx := begin(t, h)
	pauseSchedules(t, h, tx, true, 1, "a")
	if !h.OneWriter {
		fire(t, h, 1)
	}
	rollback(t, tx)
	poll(t, "the tick that was locked", func() bool {
		_, _, err := runner(h).FireSchedules(t.Context())
		if err != nil {
			t.Fatalf("FireSchedules: %v", err)
		}
		all := listSchedules(t, h, 2)
		return all[0].LastJob != 0 && all[1].LastJob != 0
	})
	claimAll(t, h, 2)
}

// testFireWorker: a sleeping worker learns of a schedule, and starts each job at its tick and not
// at its next poll.
func testFireWorker(t *testing.T, h Harness) {
	started := make(chan *queue.Job, 10)
	stop := startWorker(t, engine.Worker{
		Backend: h.Queue, Queues: []string{"q"}, Poll: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Handler: queue.HandlerFunc(func(_ context.Context, j *queue.Job) error { started <- j; return nil }),
	})
	defer stop()
	time.Sleep(2 * asleep) // the worker falls asleep
	setSchedules(t, h, nil, queue.Schedule{Name: "a", Spec: "@every 1s", Job: newJob()})
	for range 2 {
		select {
		case j := <-started:
			if _, _, ok := queue.TickOf(j); !ok {
				t.Errorf("job %d has no tick", j.ID)
			}
		case <-time.After(patience):
			t.Fatalf("no tick of a schedule each second within %v", patience)
		}
	}
}
