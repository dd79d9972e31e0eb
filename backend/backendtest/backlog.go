package backendtest

import (
	"context"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var backlogCases = []testCase{
	{"no jobs", hasInspector, testBacklogNone},
	{"the age of a job that is due", hasInspector, testBacklogAge},
	{"a job counts from when it is due", hasInspector, testBacklogDelayed},
	{"only what is pending and due", hasInspector, testBacklogOnlyDue},
	{"a released job", hasInspector, testBacklogReleased},
	{"the oldest of any priority", hasInspector, testBacklogOldest},
	{"queues in the order of their names", hasInspector, testBacklogQueues},
	{"beside an open transaction", hasInspector | hasTx, testBacklogBeside},
	{"with a cancelled context", hasInspector, testBacklogCancelled},
}

// waiting is a queue whose oldest job became due between two moments.
type waiting struct {
	queue         string
	before, after time.Time
}

// enqueueWaiting enqueues the job and notes when it becomes due.
func enqueueWaiting(t *testing.T, h Harness, j *queue.Job) waiting {
	t.Helper()
	before := time.Now()
	enqueue(t, h, j)
	return waiting{j.Queue, before.Add(j.Delay), time.Now().Add(j.Delay)}
}

// wantBacklogs checks which queues have a backlog. Each age must lie between its value when
// Backlogs was called and its value when Backlogs returned.
func wantBacklogs(t *testing.T, h Harness, when string, want ...waiting) (got []driver.Backlog) {
	t.Helper()
	const tick = time.Millisecond // the backend's clock may be coarser than ours
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	asked := time.Now()
	got, err := inspector.Backlogs(t.Context())
	answered := time.Now()
	if err != nil {
		t.Fatalf("Backlogs %s: %v", when, err)
	}
	if len(got) != len(want) {
		t.Fatalf("Backlogs %s: got %+v, want %d queues", when, got, len(want))
	}
	for i, w := range want {
		least, most := max(asked.Sub(w.after)-tick, 0), answered.Sub(w.before)+tick
		if b := got[i]; b.Queue != w.queue || b.Age < least || b.Age > most {
			t.Fatalf("Backlogs %s: got %+v, at %d want queue %q with an age between %v and %v", when, got, i, w.queue, least, most)
		}
	}
	return got
}

func testBacklogNone(t *testing.T, h Harness) {
	wantBacklogs(t, h, "without jobs")
}

func testBacklogAge(t *testing.T, h Harness) {
	due := enqueueWaiting(t, h, newJob())
	poll(t, "a job to have waited for 20 ms", func() bool {
		return wantBacklogs(t, h, "with a job that is due", due)[0].Age >= 20*time.Millisecond
	})
	claimOne(t, h)
	wantBacklogs(t, h, "after the job was claimed")
}

func testBacklogDelayed(t *testing.T, h Harness) {
	j := newJob()
	j.Delay = 30 * time.Millisecond
	due := enqueueWaiting(t, h, j)
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	poll(t, "a job to be due", func() bool {
		got, err := inspector.Backlogs(t.Context())
		if err != nil {
			t.Fatalf("Backlogs: %v", err)
		}
		if early := time.Until(due.before); len(got) > 0 && early > time.Millisecond {
			t.Fatalf("Backlogs %v before the job is due: got %+v, want none", early, got)
		}
		return len(got) > 0
	})
	wantBacklogs(t, h, "with a job that has become due", due)
}

func testBacklogOnlyDue(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(5, nil)...)
	held := claimAll(t, h, 5)
	later := newJob()
	later.Delay = time.Hour
	enqueue(t, h, later)
	settle(t, h, queue.Outcome{Job: held[0], Action: queue.Done}, queue.Outcome{Job: held[1], Action: queue.Dead},
		queue.Outcome{Job: held[2], Action: queue.Retry, Delay: time.Hour}, queue.Outcome{Job: held[3], Action: queue.Release, Delay: time.Hour})
	wantBacklogs(t, h, "with jobs that are completed, dead, running, and due in an hour")

	again := waiting{queue: "q", before: time.Now()}
	settle(t, h, queue.Outcome{Job: held[4], Action: queue.Retry})
	again.after = time.Now()
	wantBacklogs(t, h, "with a job that is tried again", again)
}

// testBacklogReleased: a job that was claimed and not started has waited all the time.
func testBacklogReleased(t *testing.T, h Harness) {
	const spread = time.Minute // between this clock and the backend's
	since := time.Now().Add(-2 * time.Hour)
	j := newJob()
	j.ScheduledAt = since
	enqueue(t, h, j, newJob())
	settle(t, h, outcomes(queue.Release, claimAll(t, h, 2)...)...)
	wantBacklogs(t, h, "with a released job", waiting{"q", since.Add(-spread), since.Add(spread)})
}

// testBacklogOldest: the job of the least urgent priority has waited longest.
func testBacklogOldest(t *testing.T, h Harness) {
	const spread = time.Minute // between this clock and the backend's
	since := time.Now().Add(-time.Hour)
	enqueue(t, h, newJobs(20, func(i int, j *queue.Job) {
		j.Priority = int32(i%5) - 2
		j.Queue = []string{"p", "q"}[i%2]
		if i == 9 { // of the queue q and priority 2
			j.ScheduledAt = since
		}
		if i%7 == 0 {
			j.Delay = time.Hour
		}
	})...)
	urgent := waiting{"p", since.Add(time.Hour), time.Now()}
	wantBacklogs(t, h, "with jobs of five priorities", urgent, waiting{"q", since.Add(-spread), since.Add(spread)})
}

// testBacklogQueues: queues come in the order of their names' bytes, whatever the database's
// collation.
func testBacklogQueues(t *testing.T, h Harness) {
	from := time.Now()
	names := []string{"A b", "B", "a", "a-c", "ab", "b"}
	enqueue(t, h, newJobs(3*len(names), func(i int, j *queue.Job) { j.Queue = names[(i*5)%len(names)] })...)
	var want []waiting
	for _, name := range names {
		want = append(want, waiting{name, from, time.Now()})
	}
	wantBacklogs(t, h, "of six queues", want...)
}

func testBacklogBeside(t *testing.T, h Harness) {
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	tx := begin(t, h)
	due := waiting{queue: "q", before: time.Now()}
	enqueueIn(t, h, tx, newJob())
	due.after = time.Now()

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	got, err := inspector.Backlogs(ctx)
	if err != nil && ctx.Err() == nil { // one that has to wait for the transaction sees none either
		t.Fatalf("Backlogs beside an open transaction: %v", err)
	}
	if len(got) != 0 {
		t.Fatalf("Backlogs beside an open transaction: got %+v, want none", got)
	}
	commit(t, tx)
	wantBacklogs(t, h, "after commit", due)
}

func testBacklogCancelled(t *testing.T, h Harness) {
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	enqueue(t, h, newJob())
	_, err := inspector.Backlogs(cancelled(t))
	wantCanceled(t, "Backlogs", err)
}
