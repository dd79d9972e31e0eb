package engine_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestLedger: a Ledger logs and counts each end as a worker does, a retry of the last attempt as
// dead, and returns the reclaimed jobs that are dead.
func TestLedger(t *testing.T) {
	q, log := queuetest.New(queuetest.Options{}), newLogs(t)
	l := engine.NewLedger("gateway", slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	job := func(id int64, most int) *queue.Job {
		return &queue.Job{ID: id, Kind: "k", Queue: "q", Attempt: 1, MaxAttempts: most, Worker: "python"}
	}
	l.Ended(queue.Outcome{Job: job(1, 2)}, time.Second, 0, true)
	l.Ended(queue.Outcome{Job: job(2, 2), Action: queue.Retry, Delay: time.Minute, Err: errPlain}, time.Second, 0, true)
	l.Ended(queue.Outcome{Job: job(3, 1), Action: queue.Retry, Delay: time.Minute}, time.Second, 0, true)
	l.Ended(queue.Outcome{Job: job(4, 2), Action: queue.Dead, Err: errPlain}, time.Second, 0, true)
	l.Ended(queue.Outcome{Job: job(5, 2), Action: queue.Release, Delay: time.Minute}, time.Second, 0, true)
	l.Ended(queue.Outcome{Job: job(6, 2), Action: queue.Cancel}, time.Second, 0, true)
	l.Ended(queue.Outcome{Job: job(7, 2), Action: queue.Dead, Err: errPlain}, time.Second, 0, false)
	again, last, cancelled := job(8, 2), job(9, 1), job(10, 1)
	again.LastError, last.LastError, cancelled.LastError = "expired", "expired", driver.ReclaimedCancelled
	if dead := l.Reclaimed(again, last, cancelled); !slices.Equal(dead, []*queue.Job{last}) {
		t.Errorf("reclaimed as dead: got %v, want job 9 alone", dead)
	}
	want := []string{
		"2 errand: job failed plain python", "3 errand: job is dead queue: discarded without an error python",
		"4 errand: job is dead plain python", "5 errand: job released queue: snoozed for 1m0s python",
		"6 errand: job cancelled " + queue.ErrCancelled.Error() + " python",
		"8 errand: lease expired, job reclaimed expired gateway", "9 errand: job is dead expired gateway",
		"10 errand: job cancelled " + driver.ReclaimedCancelled + " gateway",
	}
	var got []string
	for _, rec := range log.find(t, "errand: ") {
		got = append(got, fmt.Sprint(rec["job"], " ", rec["msg"], " ", rec["error"], " ", rec["worker"]))
	}
	if !slices.Equal(got, want) {
		t.Errorf("logged:\ngot  %q\nwant %q", got, want)
	}
	if err := l.Report(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	all := statsOf(t, q, queue.StatsFilter{})
	if len(all) != 1 || all[0].Done != 1 || all[0].Failed != 1 || all[0].Dead != 4 || all[0].Lost != 3 || all[0].Ran != 5*time.Second {
		t.Errorf("statistics: got %+v, want 1 done, 1 failed, 4 dead, 3 lost", all)
	}
}
