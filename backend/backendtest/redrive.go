package backendtest

import (
	"errors"
	"testing"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var redriveCases = []testCase{
	{"one job", hasEditor, testRedriveOne},
	{"only the dead", hasEditor, testRedriveOnlyDead},
	{"by queue and kind", hasEditor, testRedriveMany},
	{"whose key is taken", hasEditor, testRedriveKeyTaken},
	{"two dead of one key", hasEditor, testRedriveSameKey},
	{"1,500 at once", hasEditor, testRedriveAll},
}

// kill enqueues jobs and makes them dead.
func kill(t *testing.T, h Harness, jobs ...*queue.Job) {
	t.Helper()
	enqueue(t, h, jobs...)
	req := request(len(jobs))
	req.Queues = []string{"q", "p"}
	var batch []queue.Outcome
	for _, j := range claim(t, h, req) {
		batch = append(batch, queue.Outcome{Job: j, Action: queue.Dead, Err: errors.New("boom")})
	}
	settle(t, h, batch...)
}

// redrive redrives and checks how many jobs were redriven.
func redrive(t *testing.T, h Harness, which queue.Selection, want int) {
	t.Helper()
	editor, _ := driver.As[driver.Editor](h.Queue)
	n, err := editor.Redrive(t.Context(), nil, which)
	if err != nil || n != want {
		t.Fatalf("Redrive(%+v): got %d, error %v; want %d", which, n, err, want)
	}
}

func testRedriveOne(t *testing.T, h Harness) {
	jobs := newJobs(2, func(_ int, j *queue.Job) { j.MaxAttempts = 2 })
	kill(t, h, jobs...)
	redrive(t, h, queue.Selection{IDs: []int64{jobs[1].ID}}, 1)
	wantStatus(t, h, "after Redrive", jobs[1].ID, queue.StatusPending)
	got := claimOne(t, h)
	wantIDs(t, "claim after Redrive of one", []*queue.Job{got}, jobs[1:])
	if got.Attempt != 1 || got.LastError != "" || got.MaxAttempts != 2 {
		t.Errorf("claim after Redrive: got attempt %d of %d, LastError %q; want 1 of 2, none", got.Attempt, got.MaxAttempts, got.LastError)
	}
	wantStatus(t, h, "that was not redriven", jobs[0].ID, queue.StatusDead)
}

func testRedriveOnlyDead(t *testing.T, h Harness) {
	jobs := newJobs(3, nil)
	enqueue(t, h, jobs...)
	held := claim(t, h, request(2))
	settle(t, h, queue.Outcome{Job: held[0], Action: queue.Done})
	for _, j := range jobs {
		redrive(t, h, queue.Selection{IDs: []int64{j.ID}}, 0)
	}
	redrive(t, h, queue.Selection{IDs: []int64{jobs[2].ID + 1_000_000}}, 0)
	redrive(t, h, queue.Selection{Queue: "q"}, 0)
	wantHeld(t, h, "after Redrive", held[1])
	wantIDs(t, "claim after Redrive of what is not dead", claimAll(t, h, 1), jobs[2:])
}

func testRedriveMany(t *testing.T, h Harness) {
	jobs := newJobs(6, func(i int, j *queue.Job) {
		j.Queue, j.Kind = []string{"q", "p"}[i%2], []string{"k", "l", "m"}[i%3]
	})
	kill(t, h, jobs...)
	redrive(t, h, queue.Selection{Queue: "none"}, 0)
	redrive(t, h, queue.Selection{IDs: []int64{jobs[0].ID}, Queue: "p"}, 0)
	redrive(t, h, queue.Selection{IDs: []int64{jobs[0].ID}, Kind: "l"}, 0)
	redrive(t, h, queue.Selection{Queue: "q", Kind: "m"}, 1) // 2
	wantIDs(t, "claim after Redrive of a queue's kind", claimAll(t, h, 1), jobs[2:3])
	redrive(t, h, queue.Selection{Kind: "l"}, 2) // 1 and 4
	wantIDs(t, "claim after Redrive of a kind", claimAll(t, h, 1), jobs[4:5])
	redrive(t, h, queue.Selection{Queue: "q"}, 1) // 0
	wantIDs(t, "claim after Redrive of a queue", claimAll(t, h, 1), jobs[:1])
	redrive(t, h, queue.Selection{Queue: "q"}, 0)
}

func testRedriveKeyTaken(t *testing.T, h Harness) {
	dead, live := keyed("a"), keyed("a")
	kill(t, h, dead, newJob())
	enqueue(t, h, live)
	redrive(t, h, queue.Selection{IDs: []int64{dead.ID}}, 0)
	redrive(t, h, queue.Selection{Queue: "q"}, 1)
	wantStatus(t, h, "whose key is taken", dead.ID, queue.StatusDead)
	settle(t, h, outcomes(queue.Done, claimAll(t, h, 2)...)...)
	redrive(t, h, queue.Selection{IDs: []int64{dead.ID}}, 1)
	again := keyed("a")
	enqueue(t, h, again)
	wantDuplicate(t, "that a redriven job holds again", again, dead)
}

func testRedriveSameKey(t *testing.T, h Harness) {
	for range 3 {
		kill(t, h, keyed("a"))
	}
	kill(t, h, keyed("b"))
	redrive(t, h, queue.Selection{Kind: "k"}, 2)
	if got := claimAll(t, h, 2); got[0].Key == got[1].Key {
		t.Errorf("keys of the jobs that are live after Redrive: got %q twice, want a and b", got[0].Key)
	}
}

func testRedriveAll(t *testing.T, h Harness) {
	jobs := newJobs(1500, nil)
	kill(t, h, jobs...)
	redrive(t, h, queue.Selection{Queue: "q"}, len(jobs))
	wantSameIDs(t, "claim after Redrive of all", claimAll(t, h, len(jobs)), jobs)
}
