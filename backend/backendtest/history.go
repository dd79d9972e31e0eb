package backendtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var historyCases = []testCase{
	{"of failures", hasInspector, testHistory},
	{"of success and release", hasInspector, testNoHistory},
	{"of a panic", hasInspector, testHistoryOfPanic},
	{"keeps the last ten", hasInspector, testHistoryIsBounded},
	{"text is cut", hasInspector, testHistoryText},
	{"of a crash", hasInspector | hasReclaimer, testHistoryOfCrash},
	{"through a redrive", hasInspector | hasEditor, testHistoryOfRedrive},
	{"in a transaction", hasInspector | hasTx, testHistoryInTx},
	{"of a job of ClaimTx", hasInspector | hasTxClaimer, testHistoryOfClaimTx},
	{"is left out of lists", hasInspector, testHistoryInLists},
}

// fail settles the job as failed, due again at once.
func fail(t *testing.T, h Harness, job *queue.Job, err error) {
	t.Helper()
	settle(t, h, queue.Outcome{Job: job, Action: queue.Retry, Err: err})
}

// history returns the job's history. It checks what all failures have in common.
func history(t *testing.T, h Harness, id int64) []queue.Failure {
	t.Helper()
	rec, ok := lookUp(t, h, id)
	if !ok {
		t.Fatalf("Job(%d): not found", id)
	}
	var before time.Time
	for i, f := range rec.History {
		if f.At.Before(before) || f.At.Before(rec.CreatedAt) || time.Since(f.At) > time.Hour {
			t.Errorf("history of job %d, failure %d: got At %v; want a time after %v and %v", id, i, f.At, before, rec.CreatedAt)
		}
		if f.Took < 0 || f.Took > time.Hour {
			t.Errorf("history of job %d, failure %d: got Took %v; want at least 0, and not long", id, i, f.Took)
		}
		before = f.At
	}
	return rec.History
}

// wantFailures checks the attempts, redrives and errors of failures. Each is written as
// "attempt redrives error".
func wantFailures(t *testing.T, when string, got []queue.Failure, want ...string) {
	t.Helper()
	var texts []string
	for _, f := range got {
		texts = append(texts, fmt.Sprintf("%d %d %s", f.Attempt, f.Redrives, f.Error))
	}
	if strings.Join(texts, "\n") != strings.Join(want, "\n") {
		t.Errorf("history %s:\ngot  %q\nwant %q", when, texts, want)
	}
}

func testHistory(t *testing.T, h Harness) {
	j := newJob()
	j.MaxAttempts = 3
	enqueue(t, h, j, newJob())
	held := claimAll(t, h, 2)
	wantFailures(t, "before a failure", history(t, h, j.ID))
	time.Sleep(3 * time.Millisecond)
	fail(t, h, held[0], errors.New("first \"one\"\n\\ {}"))
	for _, err := range []error{nil, errors.New("third")} {
		fail(t, h, claimOne(t, h), err)
	}
	got := history(t, h, j.ID)
	wantFailures(t, "after three failures", got, "1 0 first \"one\"\n\\ {}", "2 0 ", "3 0 third")
	if got[0].Worker != "w" || got[0].Took < 3*time.Millisecond || got[0].Stack != "" {
		t.Errorf("history: got worker %q, Took %v, stack %q; want w, at least 3ms, none", got[0].Worker, got[0].Took, got[0].Stack)
	}
	wantStatus(t, h, "after three failures", j.ID, queue.StatusDead)
	other := newJob()
	enqueue(t, h, other)
	settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: queue.Dead, Err: errors.New("hopeless")})
	wantFailures(t, "after Dead", history(t, h, other.ID), "1 0 hopeless")
	wantFailures(t, "of the job that still runs", history(t, h, held[1].ID))
}

func testNoHistory(t *testing.T, h Harness) {
	j := newJob()
	enqueue(t, h, j)
	settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: queue.Release, Err: errors.New("not kept")})
	if got := history(t, h, j.ID); got != nil {
		t.Errorf("history after Release: got %+v, want nil", got)
	}
	fail(t, h, claimOne(t, h), errors.New("boom"))
	settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: queue.Release})
	wantFailures(t, "after a failure and Release", history(t, h, j.ID), "1 0 boom")
	settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: queue.Done})
	if _, isKept := lookUp(t, h, j.ID); isKept {
		wantFailures(t, "of a job that has succeeded at last", history(t, h, j.ID), "1 0 boom")
	}
}

func testHistoryOfPanic(t *testing.T, h Harness) {
	j := newJob()
	enqueue(t, h, j)
	err := func() (err error) {
		defer func() { err = queue.RecoveredPanic(recover()) }()
		panic("boom")
	}()
	fail(t, h, claimOne(t, h), fmt.Errorf("wrapped: %w", err))
	got := history(t, h, j.ID)
	if len(got) != 1 || got[0].Stack == "" || got[0].Stack != driver.StackText(err) {
		t.Errorf("history of a panic: got %+v; want the stack %q", got, driver.StackText(err))
	}
}

func testHistoryIsBounded(t *testing.T, h Harness) {
	j := newJob()
	j.MaxAttempts = 100
	enqueue(t, h, j)
	var want []string
	for i := range driver.MaxHistory + 5 {
		text := fmt.Sprintf("error %d %s", i, strings.Repeat("é", 400))
		fail(t, h, claimOne(t, h), errors.New(text))
		want = append(want, fmt.Sprintf("%d 0 %s", i+1, text))
	}
	wantFailures(t, "after fifteen failures", history(t, h, j.ID), want[5:]...)
}

func testHistoryText(t *testing.T, h Harness) {
	for _, unit := range []string{"x", "é", "\U0010ffff", "\"\\\n"} {
		j := newJob()
		enqueue(t, h, j)
		settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: queue.Dead, Err: errors.New(strings.Repeat(unit, 20_000))})
		rec, _ := lookUp(t, h, j.ID)
		want := []rune(rec.LastError)
		want = want[:min(len(want), driver.MaxHistoryText)]
		if got := history(t, h, j.ID); len(got) != 1 || got[0].Error != string(want) {
			t.Errorf("error text of %q in the history: got %d characters, want the first %d of LastError",
				unit, utf8.RuneCountInString(got[0].Error), len(want))
		}
	}
}

func testHistoryOfCrash(t *testing.T, h Harness) {
	jobs := newJobs(2, func(i int, j *queue.Job) { j.MaxAttempts = 1 + i })
	enqueue(t, h, jobs...)
	claim(t, h, short(request(2)))
	awaitReclaim(t, h, 2)
	for _, j := range jobs {
		got := history(t, h, j.ID)
		wantFailures(t, "after a crash", got, "1 0 errand: the lease of worker w expired")
		if len(got) == 1 && (got[0].Worker != "w" || got[0].Took < shortLease) {
			t.Errorf("history of a crash: got worker %q, Took %v; want w, at least the lease", got[0].Worker, got[0].Took)
		}
	}
}

func testHistoryOfRedrive(t *testing.T, h Harness) {
	j := newJob()
	j.MaxAttempts = 1
	enqueue(t, h, j)
	for i := range 3 {
		fail(t, h, claimOne(t, h), fmt.Errorf("life %d", i))
		redrive(t, h, queue.Selection{IDs: []int64{j.ID}}, 1)
	}
	wantFailures(t, "after three redrives", history(t, h, j.ID), "1 0 life 0", "1 1 life 1", "1 2 life 2")
	if rec, _ := lookUp(t, h, j.ID); rec.LastError != "" || rec.Attempt != 0 || rec.Redrives != 3 {
		t.Errorf("record after three redrives: got %+v; want no error, no attempt, 3 redrives", rec)
	}
}

// testHistoryInTx: a failure that a transaction settles is there after its commit only.
func testHistoryInTx(t *testing.T, h Harness) {
	j := newJob()
	enqueue(t, h, j)
	held := claimOne(t, h)
	for _, end := range []func(Tx) error{Tx.Rollback, Tx.Commit} {
		tx := begin(t, h)
		settleIn(t, h, tx, queue.Outcome{Job: held, Action: queue.Dead, Err: errors.New("boom")})
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
	}
	wantFailures(t, "after a rollback and a commit", history(t, h, j.ID), "1 0 boom")
}

func testHistoryOfClaimTx(t *testing.T, h Harness) {
	j := newJob()
	enqueue(t, h, j)
	tx := begin(t, h)
	held := claimIn(t, h, tx)
	settleIn(t, h, tx, queue.Outcome{Job: held, Action: queue.Retry, Err: errors.New("boom")})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	got := history(t, h, j.ID)
	wantFailures(t, "of a job of ClaimTx", got, "1 0 boom")
	if len(got) == 1 && got[0].Worker != "transaction" {
		t.Errorf("history of a job of ClaimTx: got worker %q, want transaction", got[0].Worker)
	}
}

func testHistoryInLists(t *testing.T, h Harness) {
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	kill(t, h, newJob())
	for _, status := range []queue.Status{"", queue.StatusDead} {
		page, _, err := inspector.Jobs(t.Context(), queue.Filter{Status: status})
		if err != nil || len(page) != 1 || page[0].History != nil {
			t.Errorf("Jobs with status %q: got %+v, error %v; want a job without its history", status, page, err)
		}
	}
}
