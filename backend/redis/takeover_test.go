package redis_test

import (
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/queue"
)

// TestTakeOverOtherData: a process with other time zone data has died while it fired missed ticks.
// The process that takes over fires these, and not those of its own data: a daily job would run
// twice a day.
func TestTakeOverOtherData(t *testing.T) {
	const zone = "Asia/Kolkata" // its clocks do not change
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	k := newTicking(t, 1)
	spec := k.next.In(loc).Format("4 15 * * *")
	s := queue.Schedule{Name: "s", Spec: spec, Zone: zone, Missed: queue.MissedAll, Job: &queue.Job{Queue: "q", Kind: "k"}}
	if err := k.b.SetSchedules(t.Context(), nil, s); err != nil {
		t.Fatal(err)
	}
	var ticks []time.Time // an hour too early for this process
	var want []string
	for day := 3; day > 0; day-- {
		tick := k.next.Add(-time.Hour).AddDate(0, 0, -day)
		ticks, want = append(ticks, tick), append(want, tick.Format(time.RFC3339))
	}
	fire := func() (got []string) {
		t.Helper()
		k.begin(t, ticks[0], len(ticks), time.Now(), ticks...)
		redis.ForgetTick(k.b)
		if _, _, err := k.b.FireSchedules(t.Context()); err != nil {
			t.Fatal(err)
		}
		jobs, err := k.b.Claim(t.Context(), request(100))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			got = append(got, j.Headers[queue.TickHeader])
		}
		k.wantEnded(t)
		return got
	}
	if got := fire(); !slices.Equal(got, want) {
		t.Errorf("ticks: got %q, want %q", got, want)
	}
	if got := fire(); len(got) > 0 {
		t.Errorf("ticks that the other process has fired: got %q again", got)
	}
}
