package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestTokensSwept: Prune removes the buckets that are full at the present rates or have none, also
// if at the rate at which they were spent from they are full in a year. It removes no others.
func TestTokensSwept(t *testing.T) {
	extent.Long(t)
	db, b := fresh(t, "sqlite", sqlite.Options{})
	set := func(rate queue.Rate) {
		t.Helper()
		rules := []queue.Rule{{GroupRate: rate}, {Group: "slow", GroupRate: queue.Rate{Jobs: 1, Per: time.Hour}}}
		if err := b.SetRules(t.Context(), nil, rules...); err != nil {
			t.Fatal(err)
		}
	}
	for name, rate := range map[string]queue.Rate{"raised": {Jobs: 1000}, "removed": {}} {
		set(queue.Rate{Jobs: 1, Per: 366 * 24 * time.Hour})
		for i := range 500 {
			enqueue(t, b, &queue.Job{Kind: "test", Group: fmt.Sprint(name, i)})
		}
		enqueue(t, b, &queue.Job{Kind: "test", Group: "slow"})
		claim(t, b, 501)
		set(rate)
		time.Sleep(5 * time.Millisecond)
		if _, _, err := b.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := value[string](t, db, `SELECT group_concat(job_group) FROM (SELECT job_group FROM errand_tokens LIMIT 9)`); left != "slow" {
			t.Errorf("%s: buckets after Prune: %s, want only slow", name, left)
		}
	}
}
