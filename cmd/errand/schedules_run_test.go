package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestScheduleRun: schedules run enqueues the job of a schedule once, also of a paused one, with an
// entry in the audit log, and leaves its ticks alone.
func TestScheduleRun(t *testing.T) {
	t.Parallel()
	for name, url := range bulkBackends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := url(t)
			d := openMigrated(t, database)
			scheduler, _ := driver.As[driver.Scheduler](d.Queue)
			nightly := queue.Schedule{Name: "nightly", Spec: "0 3 * * *", Zone: "Asia/Tokyo", Paused: true,
				Job: &queue.Job{Kind: "report", Queue: "slow", Payload: json.RawMessage(`{"n":1}`)}}
			if err := scheduler.SetSchedules(t.Context(), nil, nightly); err != nil {
				t.Fatal(err)
			}
			before, err := scheduler.Schedules(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var first, second struct {
				ID        int64
				Duplicate bool
			}
			for _, out := range []any{&first, &second} {
				r := runErrand(t, database, "schedules", "run", "nightly", "--reason", "lost", "-o", "json")
				if err := json.Unmarshal([]byte(r.out), out); err != nil || r.code != cli.ExitDone {
					t.Fatalf("exit code %d: %s%s", r.code, r.out, r.err)
				}
			}
			if first.ID == 0 || first.Duplicate || second.ID != first.ID || !second.Duplicate {
				t.Errorf("got %+v and then %+v, want a job and then its duplicate", first, second)
			}
			inspector, _ := driver.As[driver.Inspector](d.Queue)
			job, ok, err := inspector.Job(t.Context(), first.ID)
			if err != nil || !ok || job.Kind != "report" || job.Queue != "slow" || !strings.Contains(string(job.Payload), `1`) || job.Status != queue.StatusPending {
				t.Errorf("the job: %+v, %v", job, err)
			}
			if schedule, tick, ok := queue.TickOf(&job.Job); !ok || schedule != "nightly" || tick.IsZero() {
				t.Errorf("the job is of %s, %v", schedule, tick)
			}
			after, err := scheduler.Schedules(t.Context())
			if err != nil || after[0].Version != before[0].Version || !after[0].Next.Equal(before[0].Next) || !after[0].LastTick.Equal(before[0].LastTick) {
				t.Errorf("the schedule has changed from %+v to %+v, %v", before, after, err)
			}
			if auditor, ok := driver.As[driver.Auditor](d.Queue); ok {
				page, _, err := auditor.AuditLog(t.Context(), queue.AuditFilter{Action: "schedules.run"})
				if err != nil || len(page) != 2 || page[1].Count != 1 || page[1].JobID != first.ID || page[1].Reason != "lost" || page[0].Count != 0 {
					t.Errorf("the audit log: %+v, %v", page, err)
				}
			}
			if r := runErrand(t, database, "schedules", "run", "nightli"); r.code != 3 || !strings.Contains(r.err, "did you mean nightly?") {
				t.Errorf("no such schedule: exit code %d, %s", r.code, r.err)
			}
		})
	}
}
