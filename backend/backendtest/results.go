package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var resultsCases = []testCase{
	{"output of a job", hasResults, testOutput},
	{"output beside other outcomes", hasResults, testOutputsInBatch},
	{"bad output", hasResults, testBadOutput},
	{"output of a lost job", hasResults, testOutputOfLost},
	{"output in a transaction", hasResults | hasTx, testOutputInTx},
	{"output of a job of ClaimTx", hasResults | hasTxClaimer, testOutputOfClaimTx},
	{"output of a second life", hasResults | hasEditor, testOutputAgain},
	{"progress", hasResults, testProgress},
	{"bad progress", hasResults, testBadProgress},
	{"a worker and a caller who awaits", hasResults, testAwait},
	{"a held job", hasResults | holds, testAwaitHeld},
}

// testAwaitHeld: Await does not wait for a job that needs a person.
func testAwaitHeld(t *testing.T, h Harness) {
	j := newJob()
	enqueue(t, h, j)
	hold(t, h, j)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if r, err := engine.Await(ctx, h.Queue, j.ID); !errors.Is(err, engine.ErrHeld) || r.Status != queue.StatusHeld {
		t.Errorf("Await of a held job: got %+v, error %v; want ErrHeld", r, err)
	}
}

func keeper(h Harness) driver.ResultKeeper {
	k, _ := driver.As[driver.ResultKeeper](h.Queue)
	return k
}

// result returns the job's result. If the backend does not keep completed jobs, ok may be false.
func result(t *testing.T, h Harness, id int64) (r queue.Result, ok bool) {
	t.Helper()
	r, ok, err := keeper(h).Result(t.Context(), id)
	if err != nil {
		t.Fatalf("Result(%d): %v", id, err)
	}
	return r, ok
}

func wantOutput(t *testing.T, h Harness, when string, id int64, want string) {
	t.Helper()
	r, ok := result(t, h, id)
	if !ok {
		t.Fatalf("Result(%d) %s: not found", id, when)
	}
	if want == "" && r.Output == nil {
		return
	}
	if r.Output == nil {
		t.Fatalf("output of job %d %s: got none, want %.50s", id, when, want)
	}
	wantJSON(t, "output "+when, r.Output, want)
}

func testOutput(t *testing.T, h Harness) {
	for _, output := range []string{`null`, `1.5`, `"a \"b\" é 😀"`, `{"b": [1, {}], "a": null}`, `[]`, `"` + strings.Repeat("x", queue.MaxOutput-2) + `"`} {
		j := newJob()
		enqueue(t, h, j)
		if r, ok := result(t, h, j.ID); !ok || r.Status != queue.StatusPending || r.Output != nil || r.Progress != nil || r.HasEnded() || r.ID != j.ID {
			t.Errorf("result of a pending job: got %+v, %v", r, ok)
		}
		held := claimOne(t, h)
		if r, _ := result(t, h, j.ID); r.Status != queue.StatusRunning || r.HasEnded() {
			t.Errorf("result of a running job: got %+v", r)
		}
		settle(t, h, queue.Outcome{Job: held, Output: json.RawMessage(output)})
		if r, _ := result(t, h, j.ID); r.Status != queue.StatusCompleted || !r.HasEnded() {
			t.Errorf("result of a completed job: got status %s", r.Status)
		}
		wantOutput(t, h, "of a completed job", j.ID, output)
	}
	if r, ok := result(t, h, 1_000_000_000); ok {
		t.Errorf("result of no job: got %+v", r)
	}
}

func testOutputsInBatch(t *testing.T, h Harness) {
	const n = 40
	jobs := newJobs(n, nil)
	enqueue(t, h, jobs...)
	held := claimAll(t, h, n)
	var batch []queue.Outcome
	for i, j := range held {
		o := queue.Outcome{Job: j}
		switch i % 4 {
		case 0:
			o.Output = json.RawMessage(fmt.Sprint(i))
		case 1:
			o.Action, o.Err = queue.Dead, errors.New("boom")
		case 2:
			o.Action = queue.Release
		}
		batch = append(batch, o)
	}
	settle(t, h, batch...)
	for i, j := range held {
		r, _ := result(t, h, j.ID)
		want := []queue.Status{queue.StatusCompleted, queue.StatusDead, queue.StatusPending, queue.StatusCompleted}[i%4]
		if r.Status != want || (r.LastError == "boom") != (i%4 == 1) {
			t.Errorf("job %d of the batch: got %+v, want %s", i, r, want)
		}
		output := ""
		if i%4 == 0 {
			output = fmt.Sprint(i)
		}
		wantOutput(t, h, "in a batch", j.ID, output)
	}
}

func testBadOutput(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(2, nil)...)
	held := claimAll(t, h, 2)
	for name, o := range map[string]queue.Outcome{
		"retried":  {Action: queue.Retry, Output: json.RawMessage(`1`)},
		"no JSON":  {Output: json.RawMessage(`{`)},
		"NUL":      {Output: json.RawMessage(`"\u0000"`)},
		"too long": {Output: json.RawMessage(`"` + strings.Repeat("x", queue.MaxOutput) + `"`)},
	} {
		o.Job = held[1]
		_, err := h.Queue.Settle(t.Context(), nil, queue.Outcome{Job: held[0]}, o)
		var invalid *queue.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "Outcome.Output" {
			t.Errorf("Settle with an output that is %s: got error %v, want an InvalidError for Outcome.Output", name, err)
		}
	}
	wantHeld(t, h, "after bad outputs", held...)
}

func testOutputOfLost(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(2, nil)...)
	held := claimAll(t, h, 2)
	stale := *held[0]
	stale.Fence++
	lost, err := h.Queue.Settle(t.Context(), nil,
		queue.Outcome{Job: &stale, Output: json.RawMessage(`1`)}, queue.Outcome{Job: held[1], Output: json.RawMessage(`2`)})
	if err != nil || len(lost) != 1 || lost[0] != &stale {
		t.Fatalf("Settle with an output of a lost job: lost %v, error %v; want that one", ids(lost), err)
	}
	wantOutput(t, h, "of a lost job", held[0].ID, "")
	wantOutput(t, h, "beside a lost job", held[1].ID, "2")
	wantHeld(t, h, "after a stale Settle", held[0])
}

func testOutputInTx(t *testing.T, h Harness) {
	j := newJob()
	enqueue(t, h, j)
	held := claimOne(t, h)
	for _, end := range []func(Tx) error{Tx.Rollback, Tx.Commit} {
		tx := begin(t, h)
		settleIn(t, h, tx, queue.Outcome{Job: held, Output: json.RawMessage(`"in tx"`)})
		if !h.OneWriter {
			wantOutput(t, h, "before the end of the transaction", j.ID, "")
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
	}
	wantOutput(t, h, "after a commit", j.ID, `"in tx"`)
}

func testOutputOfClaimTx(t *testing.T, h Harness) {
	j := newJob()
	enqueue(t, h, j)
	tx := begin(t, h)
	settleIn(t, h, tx, queue.Outcome{Job: claimIn(t, h, tx), Output: json.RawMessage(`7`)})
	commit(t, tx)
	if r, _ := result(t, h, j.ID); r.Status != queue.StatusCompleted {
		t.Errorf("job of ClaimTx with an output: got %+v, want completed", r)
	}
	wantOutput(t, h, "of a job of ClaimTx", j.ID, "7")
}

func testOutputAgain(t *testing.T, h Harness) {
	j := newJob()
	enqueue(t, h, j)
	held := claimOne(t, h)
	if err := keeper(h).KeepProgress(t.Context(), queue.Progress{Job: held, Value: json.RawMessage(`1`)}); err != nil {
		t.Fatal(err)
	}
	settle(t, h, queue.Outcome{Job: held, Action: queue.Dead})
	redrive(t, h, queue.Selection{IDs: []int64{j.ID}}, 1)
	settle(t, h, queue.Outcome{Job: claimOne(t, h), Output: json.RawMessage(`2`)})
	wantOutput(t, h, "of a second life", j.ID, "2")
}

func testProgress(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(3, nil)...)
	held := claimAll(t, h, 3)
	stale := *held[2]
	stale.Worker = "other"
	keep := func(values ...string) {
		t.Helper()
		var all []queue.Progress
		for i, v := range values {
			all = append(all, queue.Progress{Job: []*queue.Job{held[0], held[1], &stale}[i], Value: json.RawMessage(v)})
		}
		if err := keeper(h).KeepProgress(t.Context(), all...); err != nil {
			t.Fatalf("KeepProgress: %v", err)
		}
	}
	keep()
	keep(`10`, `{"done": 1}`, `"stale"`)
	keep(`20`)
	for i, want := range []string{`20`, `{"done": 1}`, ``} {
		r, _ := result(t, h, held[i].ID)
		if (r.Progress == nil) != (want == "") || r.ProgressAt.IsZero() != (want == "") || time.Since(r.ProgressAt) > time.Hour && want != "" {
			t.Errorf("progress of job %d: got %s at %v, want %s", i, r.Progress, r.ProgressAt, want)
		} else if want != "" {
			wantJSON(t, "progress", r.Progress, want)
		}
	}
	settle(t, h, queue.Outcome{Job: held[0], Output: json.RawMessage(`"end"`)})
	keep(`30`)
	r, _ := result(t, h, held[0].ID)
	wantJSON(t, "progress of a job that has ended", r.Progress, `20`)
	wantOutput(t, h, "beside progress", held[0].ID, `"end"`)
	wantHeld(t, h, "after progress", held[1:]...)
}

func testBadProgress(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	held := claimOne(t, h)
	for field, p := range map[string]queue.Progress{
		"Progress.Job": {Value: json.RawMessage(`1`)}, "Progress.Value": {Job: held, Value: json.RawMessage(`"\u0000"`)},
	} {
		err := keeper(h).KeepProgress(t.Context(), queue.Progress{Job: held, Value: json.RawMessage(`1`)}, p)
		var invalid *queue.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("KeepProgress of %+v: got error %v, want an InvalidError for %s", p, err, field)
		}
	}
	if r, _ := result(t, h, held.ID); r.Progress != nil {
		t.Errorf("progress after bad progress: got %s, want none", r.Progress)
	}
}

// testAwait: a caller sees the progress of a handler, and gets its output.
func testAwait(t *testing.T, h Harness) {
	type receipt struct{ Total int }
	j, fails := newJob(), newJob()
	fails.Kind = "fails"
	enqueue(t, h, j, fails)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	saw := make(chan struct{})
	handler := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		if err := queue.SetOutput(ctx, receipt{Total: 42}); err != nil || job.Kind == "fails" {
			return queue.Discard(errors.Join(err, errors.New("boom")))
		}
		if err := queue.SetProgress(ctx, "half"); err != nil {
			return err
		}
		select {
		case <-saw:
		case <-ctx.Done():
		}
		return nil
	})
	done := make(chan error, 1)
	go func() {
		done <- engine.Worker{Backend: h.Queue, Handler: handler, Queues: []string{"q"}, Logger: slog.New(slog.DiscardHandler)}.Run(ctx)
	}()
	poll(t, "the handler's progress", func() bool {
		r, _ := result(t, h, j.ID)
		return string(r.Progress) == `"half"`
	})
	close(saw)
	awaiting, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := engine.Await(awaiting, h.Queue, j.ID)
	if got, outputErr := queue.Output[receipt](r); err != nil || outputErr != nil || got.Total != 42 {
		t.Errorf("Await: got %+v with output %+v, errors %v and %v; want 42", r, got, err, outputErr)
	}
	r, err = engine.Await(awaiting, h.Queue, fails.ID)
	if _, outputErr := queue.Output[receipt](r); err != nil || r.Status != queue.StatusDead || r.Output != nil || outputErr == nil {
		t.Errorf("Await of a job that fails: got %+v, errors %v and %v; want dead, no output", r, err, outputErr)
	}
	if _, err := engine.Await(awaiting, h.Queue, 1_000_000_000); !errors.Is(err, engine.ErrNoJob) {
		t.Errorf("Await of no job: got error %v, want ErrNoJob", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}
