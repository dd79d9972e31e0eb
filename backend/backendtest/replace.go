package backendtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var replaceCases = []testCase{
	{"a pending job", anything, testReplacePending},
	{"a job that waits for its retry", anything, testReplaceRetry},
	{"a running job", anything, testReplaceRunning},
	{"a running job that does not end", anything, testReplaceUnended},
	{"a job that has ended", anything, testReplaceEnded},
	{"a dead job without its key", hasEditor, testReplaceRedriven},
	{"within one batch", anything, testReplaceInBatch},
	{"within one batch, beside a running job", anything, testReplaceInBatchRunning},
	{"10,000 keys of 500 bytes", isFull, testReplaceMany},
	{"keeps the place of a due job", anything, testReplacePlace},
	{"debounces", anything, testDebounce},
	{"the longest delay", hasInspector, testMaxDelay},
	{"the longest delay is over", hasInspector, testMaxDelayOver},
	{"what else is stored", hasInspector, testReplaceRecord},
	{"rolled back", hasTx, testReplaceRollback},
	{"in a transaction", hasTx, testReplaceInTx},
	{"a job that the transaction has claimed", hasTxClaimer, testReplaceClaimTx},
	{"beside an open replacement", hasTx, testReplaceBeside},
	{"extending beside an open replacement", hasTx, testExtendBesideReplace},
	{"an ordered job", isInOrder, testReplaceOrdered},
	{"replacers beside claimers", hasInspector | isFull, testReplacersBesideClaimers},
}

// replacing returns a job with the key that replaces, and a payload that nothing else has.
func replacing(key string) *queue.Job {
	j := keyed(key)
	j.OnDuplicate = queue.Replace
	j.Payload = json.RawMessage(fmt.Sprintf(`"%d"`, rand.Int64()))
	return j
}

// wantReplaced checks that j has taken the place of the pending job old.
func wantReplaced(t *testing.T, when string, j, old *queue.Job) {
	t.Helper()
	if !j.Replaced || j.Duplicate || j.ID != old.ID {
		t.Fatalf("Enqueue with Replace of key %q %s: got ID %d, Replaced %v, Duplicate %v; want %d, true, false",
			j.Key, when, j.ID, j.Replaced, j.Duplicate, old.ID)
	}
}

// wantNew checks that the jobs were written, and have replaced no job.
func wantNew(t *testing.T, when string, jobs ...*queue.Job) {
	t.Helper()
	wantWritten(t, when, jobs...)
	for _, j := range jobs {
		if j.Replaced {
			t.Fatalf("Enqueue with Replace of key %q %s: got ID %d, Replaced; want a new job", j.Key, when, j.ID)
		}
	}
}

// wantClaimed checks that got is the job that was enqueued.
func wantClaimed(t *testing.T, got, want *queue.Job) {
	t.Helper()
	wantIDs(t, "claim", []*queue.Job{got}, []*queue.Job{want})
	wantJSON(t, "payload", got.Payload, string(want.Payload))
}

func testReplacePending(t *testing.T, h Harness) {
	first, other := replacing("a"), newJob()
	first.Headers = map[string]string{"of": "the first"}
	enqueue(t, h, first, other)
	wantNew(t, "that is free", first)
	second := replacing("a")
	second.Kind, second.Priority, second.MaxAttempts = "other", 5, 7
	second.Headers = map[string]string{"by": "the second"}
	enqueue(t, h, second)
	wantReplaced(t, "that a pending job holds", second, first)
	kept := keyed("a")
	enqueue(t, h, kept)
	wantDuplicate(t, "that a replaced job holds", kept, first)

	held := claimAll(t, h, 2)
	wantIDs(t, "claim", held, []*queue.Job{other, second})
	got := held[1]
	wantJSON(t, "payload", got.Payload, string(second.Payload))
	if got.Kind != "other" || got.Priority != 5 || got.MaxAttempts != 7 || got.Key != "a" || got.Attempt != 1 ||
		len(got.Headers) != 1 || got.Headers["by"] != "the second" {
		t.Errorf("replaced job: got %+v, want what the second Enqueue gave", got)
	}
}

// testReplaceRetry: a replaced job has all its attempts, and no error of the job before.
func testReplaceRetry(t *testing.T, h Harness) {
	first := replacing("a")
	first.MaxAttempts = 2
	enqueue(t, h, first)
	settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: queue.Retry, Delay: time.Hour, Err: errors.New("boom")})
	claimNone(t, h, "before the retry")
	second := replacing("a")
	enqueue(t, h, second)
	wantReplaced(t, "of a job that waits for its retry", second, first)
	got := claimOne(t, h)
	wantClaimed(t, got, second)
	if got.Attempt != 1 || got.LastError != "" || got.MaxAttempts != queue.DefaultMaxAttempts {
		t.Errorf("replaced job: got attempt %d of %d, LastError %q; want 1 of %d, none",
			got.Attempt, got.MaxAttempts, got.LastError, queue.DefaultMaxAttempts)
	}
}

func testReplaceRunning(t *testing.T, h Harness) {
	first, second, third, kept := keyed("a"), replacing("a"), replacing("a"), keyed("a")
	enqueue(t, h, first)
	held := claimOne(t, h)
	enqueue(t, h, second)
	wantNew(t, "that a running job holds", second)
	wantHeld(t, h, "of a job that has given its key up", held)
	enqueue(t, h, third)
	wantReplaced(t, "that a running job has given up", third, second)
	enqueue(t, h, kept)
	wantDuplicate(t, "that a running job has given up", kept, second)
	if rec, ok := lookUp(t, h, first.ID); ok && (rec.Key != "" || rec.Status != queue.StatusRunning) {
		t.Errorf("record of the job that has given its key up: got key %q, %s; want none, running", rec.Key, rec.Status)
	}

	wantClaimed(t, claimOne(t, h), third)
	settle(t, h, queue.Outcome{Job: held, Action: queue.Done})
	enqueue(t, h, kept)
	wantDuplicate(t, "after the end of a job that has given it up", kept, third)
}

// testReplaceUnended: a job that has given its key up runs again if it has to, without its key.
func testReplaceUnended(t *testing.T, h Harness) {
	for _, action := range []queue.OutcomeAction{queue.Retry, queue.Release} {
		first, second, third := keyed("a"), replacing("a"), replacing("a")
		enqueue(t, h, first)
		held := claimOne(t, h)
		enqueue(t, h, second)
		settle(t, h, queue.Outcome{Job: held, Action: action})
		enqueue(t, h, third)
		wantReplaced(t, fmt.Sprintf("after %v of the job that has given it up", action), third, second)
		both := claimAll(t, h, 2)
		wantSameIDs(t, "claim", both, []*queue.Job{first, third})
		for _, j := range both {
			if want := map[int64]string{first.ID: "", third.ID: "a"}[j.ID]; j.Key != want {
				t.Errorf("key of job %d: got %q, want %q", j.ID, j.Key, want)
			}
		}
		settle(t, h, outcomes(queue.Done, both...)...)
	}
}

func testReplaceEnded(t *testing.T, h Harness) {
	for _, action := range []queue.OutcomeAction{queue.Done, queue.Dead} {
		j := replacing("a")
		enqueue(t, h, j)
		wantNew(t, "that is free", j)
		held := claimOne(t, h)
		settle(t, h, queue.Outcome{Job: held, Action: action})
		wantLost(t, h, "a job that has ended", held)
	}
}

// testReplaceRedriven: a dead job that has given its key up is redriven beside the key's holder.
func testReplaceRedriven(t *testing.T, h Harness) {
	first, second := keyed("a"), replacing("a")
	enqueue(t, h, first)
	held := claimOne(t, h)
	enqueue(t, h, second)
	settle(t, h, queue.Outcome{Job: held, Action: queue.Dead})
	editor, _ := driver.As[driver.Editor](h.Queue)
	if n, err := editor.Redrive(t.Context(), nil, queue.Selection{IDs: []int64{first.ID}}); n != 1 || err != nil {
		t.Fatalf("Redrive: %d jobs, error %v; want 1", n, err)
	}
	wantSameIDs(t, "claim", claimAll(t, h, 2), []*queue.Job{first, second})
}

func testReplaceInBatch(t *testing.T, h Harness) {
	live := keyed("live")
	enqueue(t, h, live)
	batch := []*queue.Job{
		newJob(), replacing("a"), replacing("live"), replacing("a"), keyed("a"), keyed("b"), newJob(), replacing("b"), keyed("live"),
	}
	for range 2 {
		enqueue(t, h, batch...)
		wantReplaced(t, "that a pending job holds", batch[2], live)
		wantReplaced(t, "repeated in a batch", batch[3], batch[1])
		wantDuplicate(t, "repeated in a batch", batch[4], batch[1])
		wantReplaced(t, "repeated in a batch", batch[7], batch[5])
		wantDuplicate(t, "replaced in the same batch", batch[8], live)
		held := claimAll(t, h, 5)
		byID := make(map[int64]*queue.Job)
		for _, j := range held {
			byID[j.ID] = j
		}
		for _, want := range []*queue.Job{batch[0], batch[2], batch[3], batch[6], batch[7]} {
			if byID[want.ID] == nil {
				t.Fatalf("claim: got jobs %v, want job %d among them", ids(held), want.ID)
			}
			wantJSON(t, "payload", byID[want.ID].Payload, string(want.Payload))
		}
		settle(t, h, outcomes(queue.Done, held...)...)
		live = keyed("live")
		enqueue(t, h, live)
	}
}

func testReplaceInBatchRunning(t *testing.T, h Harness) {
	running := keyed("a")
	enqueue(t, h, running)
	held := claimOne(t, h)
	batch := []*queue.Job{keyed("a"), replacing("a"), keyed("a"), replacing("a")}
	enqueue(t, h, batch...)
	wantDuplicate(t, "that a running job holds", batch[0], running)
	wantNew(t, "that a running job holds", batch[1])
	wantDuplicate(t, "repeated in a batch", batch[2], batch[1])
	wantReplaced(t, "repeated in a batch", batch[3], batch[1])
	wantClaimed(t, claimOne(t, h), batch[3])
	settle(t, h, queue.Outcome{Job: held, Action: queue.Done})
}

func testReplaceMany(t *testing.T, h Harness) {
	const n = 10_000
	batch := func() []*queue.Job {
		return newJobs(n, func(i int, j *queue.Job) {
			j.Key, j.OnDuplicate = fmt.Sprintf("%0500d", i), queue.Replace
		})
	}
	first, second := batch(), batch()
	enqueue(t, h, first...)
	wantNew(t, "that is free", first...)
	enqueue(t, h, second...)
	for i := range second {
		wantReplaced(t, "that a pending job holds", second[i], first[i])
	}
	enqueue(t, h, first...)
	wantIDs(t, "IDs of the third Enqueue", first, second)
}

// testReplacePlace: jobs that are due are not put off by a job that is due at once, however often
// they are replaced.
func testReplacePlace(t *testing.T, h Harness) {
	first, second := replacing("a"), newJob()
	first.ScheduledAt = time.Now().Add(-2 * time.Hour)
	second.ScheduledAt = time.Now().Add(-time.Hour)
	enqueue(t, h, first, second)
	later := replacing("a")
	enqueue(t, h, later)
	wantReplaced(t, "that is due", later, first)
	wantIDs(t, "claim", claimAll(t, h, 2), []*queue.Job{later, second})
}

func testReplaceRecord(t *testing.T, h Harness) {
	first, second := replacing("a"), replacing("a")
	enqueue(t, h, first)
	before, _ := lookUp(t, h, first.ID)
	time.Sleep(2 * time.Millisecond)
	enqueue(t, h, second)
	after, _ := lookUp(t, h, first.ID)
	if !after.CreatedAt.Equal(before.CreatedAt) || !after.UpdatedAt.After(before.UpdatedAt) {
		t.Errorf("replaced job: created %v, then %v, updated %v, then %v; want the first to stay and the last to grow",
			before.CreatedAt, after.CreatedAt, before.UpdatedAt, after.UpdatedAt)
	}
	wantJSON(t, "payload", after.Payload, string(second.Payload))

	held := claimOne(t, h)
	running, _ := lookUp(t, h, first.ID)
	enqueue(t, h, replacing("a"))
	running.Key = ""
	wantUnchanged(t, h, "giving the key up", running)
	wantHeld(t, h, "after giving the key up", held)
}

func testReplaceWakes(t *testing.T, h Harness) {
	later := func(key string) *queue.Job {
		j := replacing(key)
		j.Delay = time.Hour
		return j
	}
	enqueue(t, h, later("a"))
	d := listens(t, h, "w", []string{"q"}, func() { enqueue(t, h, newJob()) })
	wantPrompt(t, h, d, "Replace of a job that is not due by one that is", func() {
		enqueue(t, h, replacing("a"))
	})
	enqueue(t, h, later("a"))
	wantPrompt(t, h, d, "Replace by a job that is due sooner", func() {
		j := later("a")
		j.Delay = time.Minute
		enqueue(t, h, j)
	})
}

// testReplaceOrdered: a job that takes the place of an ordered one is in its own group, or in none.
func testReplaceOrdered(t *testing.T, h Harness) {
	ordered := func(key, group string) *queue.Job {
		j := replacing(key)
		j.Group, j.Ordered = group, group != ""
		return j
	}
	first := []*queue.Job{ordered("a", "g"), ordered("b", "g"), ordered("c", "g"), ordered("d", "h")}
	enqueue(t, h, first...)
	next := []*queue.Job{ordered("a", ""), ordered("b", "other"), ordered("c", "g"), ordered("d", "g")}
	enqueue(t, h, next...)
	held := claimAll(t, h, 3)
	wantSameIDs(t, "claim", held, next[:3])
	settle(t, h, outcomes(queue.Done, held...)...)
	wantClaimed(t, claimOne(t, h), next[3])
}
