package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/queue"
)

// TestDeathsAreBounded: of the jobs that died the newest are kept, for ten minutes.
func TestDeathsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deaths
		dead := make([]*queue.Job, maxDeaths+1)
		for i := range dead {
			dead[i] = &queue.Job{ID: int64(i), Queue: "q", Attempt: 1, MaxAttempts: 1}
		}
		d.note(dead)
		if got := d.take([]string{"p"}); len(got) != 0 {
			t.Errorf("deaths of another queue: got %d", len(got))
		}
		if got := d.take([]string{"p", "q"}); len(got) != maxDeaths || got[0].ID != 1 {
			t.Errorf("got %d deaths, want %d without the oldest", len(got), maxDeaths)
		}
		d.note(dead[:1])
		time.Sleep(deathsKept + 1)
		d.note(dead[1:2])
		if got := d.take([]string{"q"}); len(got) != 1 || got[0].ID != 1 {
			t.Errorf("after ten minutes: got %d deaths, want the new one only", len(got))
		}
	})
}
