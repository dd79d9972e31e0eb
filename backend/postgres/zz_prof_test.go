package postgres_test

import (
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

func TestZZFire(t *testing.T) {
	db, b := fresh(t, postgres.Options{})
	const n = 10000
	var all []queue.Schedule
	for i := range n {
		all = append(all, queue.Schedule{Name: fmt.Sprint(i), Spec: "@every 1h", Missed: queue.MissedAll, Job: &queue.Job{Kind: "x", Payload: []byte(`{"a":1}`)}})
	}
	if err := b.SetSchedules(t.Context(), nil, all...); err != nil {
		t.Fatal(err)
	}
	for round := range 6 {
		if _, err := db.Exec(`UPDATE errand.schedules SET next_at = now() - interval '1 second'`); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if err := b.SetSchedules(t.Context(), nil, queue.Schedule{Name: "wake", Spec: "@every 1h", Job: &queue.Job{Kind: "x"}}); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			f, _ := os.Create("/tmp/schedprof/cpu")
			pprof.StartCPUProfile(f)
			defer pprof.StopCPUProfile()
		}
		from := time.Now()
		total := 0
		for {
			fired, _, err := b.FireSchedules(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			total += fired
			if fired == 0 {
				break
			}
		}
		t.Log(total, time.Since(from), "due", postgres.TDue, "enq", postgres.TEnq, "fired", postgres.TFired, "fn", postgres.TFn)
		postgres.TDue, postgres.TEnq, postgres.TFired, postgres.TFn = 0, 0, 0, 0
	}
}
