package schedules

import (
	"github.com/errandhq/errand/queue"

	"testing"
	"time"
)

// TestTimeInZone: times of a schedule are shown in its zone.
func TestTimeInZone(t *testing.T) {
	at := time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC)
	for zone, want := range map[string]string{
		"Europe/Berlin": "2026-01-31T16:00:00+01:00", "": "2026-01-31T15:00:00Z", "No/Where": "2026-01-31T15:00:00Z",
	} {
		if got := timeIn(at, zone); got != want {
			t.Errorf("in %q: %s, want %s", zone, got, want)
		}
	}
}

// TestJobNow: there is one job, whatever the schedule does with missed ticks, and its tick is now.
func TestJobNow(t *testing.T) {
	now := time.Date(2026, 1, 31, 15, 0, 7, 8000, time.UTC)
	for _, missed := range []queue.MissedPolicy{"", queue.MissedLast, queue.MissedSkip, queue.MissedAll} {
		for _, spec := range []string{"0 9 * * 1-5", "@every 90s", "0 0 30 2 *"} {
			s := queue.Schedule{Name: "s", Spec: spec, Zone: "Europe/Berlin", Missed: missed, Job: &queue.Job{Kind: "k"}}
			job, err := jobNow(s, now)
			if err != nil {
				t.Fatal(err)
			}
			if name, tick, ok := queue.TickOf(job); !ok || name != "s" || !tick.Equal(now) || job.Kind != "k" {
				t.Errorf("%s, missed %q: %+v", spec, missed, job)
			}
		}
	}
}
