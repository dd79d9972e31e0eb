package backendtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// ending is Cancel or Delete. Both end the jobs that a Selection chooses, so they have cases in
// common.
type ending struct {
	name     string
	method   func(h Harness) func(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error)
	status   queue.Status // of a pending job after that, or "" if there is no such job any more
	accepted queue.Status // a status that the Selection may have
	refused  queue.Status // and one that it may not have
}

var cancelling = ending{
	name: "Cancel",
	method: func(h Harness) func(context.Context, queue.DB, queue.Selection) (int, error) {
		canceller, _ := driver.As[driver.Canceller](h.Queue)
		return canceller.Cancel
	},
	status: queue.StatusCancelled, accepted: queue.StatusHeld, refused: queue.StatusDead,
}

var deleting = ending{
	name: "Delete",
	method: func(h Harness) func(context.Context, queue.DB, queue.Selection) (int, error) {
		editor, _ := driver.As[driver.Editor](h.Queue)
		return editor.Delete
	},
	accepted: queue.StatusCompleted, refused: queue.StatusRunning,
}

// run ends jobs and checks how many were chosen.
func (e ending) run(t *testing.T, h Harness, db queue.DB, which queue.Selection, want int) {
	t.Helper()
	n, err := e.method(h)(t.Context(), db, which)
	if err != nil || n != want {
		t.Fatalf("%s(%+v): got %d, error %v; want %d", e.name, which, n, err, want)
	}
}

// wantEnded checks what has become of a pending job.
func (e ending) wantEnded(t *testing.T, h Harness, when string, j *queue.Job) {
	t.Helper()
	if e.status == "" {
		wantGone(t, h, when, j)
	} else {
		wantStatus(t, h, when, j.ID, e.status)
	}
}

func (e ending) testFields(t *testing.T, h Harness) {
	for _, c := range []struct {
		which queue.Selection
		want  []int
	}{
		{queue.Selection{Queue: "p"}, []int{1, 3}},
		{queue.Selection{Kind: "l"}, []int{1}},
		{queue.Selection{Group: "g"}, []int{2, 3}},
		{queue.Selection{Key: "a"}, []int{0, 3}},
		{queue.Selection{Key: "a", Queue: "q"}, []int{0}},
		{queue.Selection{Group: "g", Kind: "k", Queue: "p"}, []int{3}},
		{queue.Selection{Queue: "q", Status: queue.StatusPending}, []int{0, 2}},
		{queue.Selection{Queue: "q", Status: e.accepted}, nil},
		{queue.Selection{Queue: "none"}, nil},
		{queue.Selection{IDs: []int64{0, -1, 1 << 60}}, nil},
	} {
		jobs := newJobs(4, nil)
		jobs[1].Queue, jobs[1].Kind = "p", "l"
		jobs[2].Group = "g"
		jobs[3].Queue, jobs[3].Group, jobs[3].Key = "p", "g", "a"
		jobs[0].Key = "a"
		enqueue(t, h, jobs...)
		e.run(t, h, nil, c.which, len(c.want))
		for i, j := range jobs {
			when := fmt.Sprintf("after %s(%+v)", e.name, c.which)
			if slices.Contains(c.want, i) {
				e.wantEnded(t, h, when, j)
			} else {
				wantStatus(t, h, when, j.ID, queue.StatusPending)
			}
		}
		all := ids(jobs)
		e.run(t, h, nil, queue.Selection{IDs: append(all, all...)}, 4-len(c.want)) // each of them twice
	}
}

// testBesideClaimTx: the method waits for a transaction that works on a job, and ends the job if
// the transaction rolls back.
func (e ending) testBesideClaimTx(t *testing.T, h Harness) {
	claimer, _ := driver.As[driver.TxClaimer](h.Queue)
	for _, end := range []struct {
		name string
		do   func(t *testing.T, tx Tx)
		n    int
	}{{"commit", commit, 0}, {"rollback", rollback, 1}} {
		j := newJob()
		enqueue(t, h, j)
		tx := begin(t, h)
		if got, err := claimer.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{"q"}}); err != nil || got == nil {
			t.Fatalf("ClaimTx: got %v, error %v", got, err)
		}
		done := make(chan error, 1)
		var n int
		go func() {
			var err error
			n, err = e.method(h)(t.Context(), nil, queue.Selection{Queue: "q", Status: queue.StatusPending})
			done <- err
		}()
		select {
		case err := <-done:
			t.Fatalf("%s beside an open ClaimTx: got %d, error %v, want it to wait", e.name, n, err)
		case <-time.After(50 * time.Millisecond):
		}
		end.do(t, tx)
		if err := <-done; err != nil || n != end.n {
			t.Errorf("%s after the %s of a ClaimTx: got %d, error %v; want %d", e.name, end.name, n, err, end.n)
		}
		if end.n == 1 {
			e.wantEnded(t, h, "after the "+end.name, j)
		} else if _, isKept := lookUp(t, h, j.ID); isKept || e.status == "" {
			wantStatus(t, h, "after the "+end.name, j.ID, queue.StatusCompleted)
		}
	}
}

func (e ending) testBad(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	for _, c := range []struct {
		field string
		which queue.Selection
	}{
		{"Selection", queue.Selection{}},
		{"Selection", queue.Selection{Status: e.accepted}},
		{"Selection", queue.Selection{Status: queue.StatusPending}},
		{"Selection.IDs", queue.Selection{IDs: []int64{}, Queue: "q"}},
		{"Selection.Status", queue.Selection{Queue: "q", Status: e.refused}},
		{"Queue", queue.Selection{Queue: "\x00"}},
		{"Kind", queue.Selection{Kind: "\xff"}},
		{"Selection.Group", queue.Selection{Group: "\x00"}},
		{"Key", queue.Selection{Key: "\xff"}},
	} {
		n, err := e.method(h)(t.Context(), nil, c.which)
		wantInvalid(t, fmt.Sprintf("%s(%+v)", e.name, c.which), err, c.field)
		if n != 0 {
			t.Errorf("%s(%+v): got %d, want 0", e.name, c.which, n)
		}
	}
	_, err := e.method(h)(cancelled(t), nil, queue.Selection{Queue: "q"})
	wantCanceled(t, e.name, err)
	claimOne(t, h)
}
