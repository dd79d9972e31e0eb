package backendtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var receiveCases = []testCase{
	{"each source once", hasReceiver, testReceiveOnce},
	{"received jobs keep their order", hasReceiver | isInOrder, testReceiveInOrder},
	{"a job keeps its past", hasReceiver | hasInspector, testReceivePast},
	{"keys", hasReceiver, testReceiveKeys},
	{"all or none", hasReceiver, testReceiveBad},
	{"callers with the same jobs", hasReceiver | isFull, testReceiveTogether},
}

// receive receives transfers, and checks how many were new.
func receive(t *testing.T, h Harness, want int, transfers ...driver.Transfer) {
	t.Helper()
	receiver, _ := driver.As[driver.Receiver](h.Queue)
	got, err := receiver.Receive(t.Context(), transfers...)
	if err != nil || got != want {
		t.Fatalf("Receive of %d jobs: got %d, error %v; want %d", len(transfers), got, err, want)
	}
}

// transfers returns n jobs of the sources "PREFIX 0" and so on.
func transfers(prefix string, n int, set func(i int, j *queue.Job)) []driver.Transfer {
	all := make([]driver.Transfer, n)
	for i, j := range newJobs(n, set) {
		all[i] = driver.Transfer{Source: fmt.Sprintf("%s %d", prefix, i), Job: j}
	}
	return all
}

// testReceiveOnce: what was received is not received again, also after it has ended.
func testReceiveOnce(t *testing.T, h Harness) {
	receive(t, h, 0)
	receive(t, h, 3, transfers("a", 3, nil)...)
	receive(t, h, 0, transfers("a", 3, nil)...)
	settle(t, h, outcomes(queue.Done, claimAll(t, h, 3)...)...)
	mixed := append(transfers("b", 2, nil), transfers("a", 3, nil)...)
	mixed = append(mixed, transfers("b", 2, nil)...)
	receive(t, h, 2, mixed...)
	wantSameIDs(t, "what was new", claimAll(t, h, 2), []*queue.Job{mixed[0].Job, mixed[1].Job})
}

func testReceiveInOrder(t *testing.T, h Harness) {
	all := transfers("a", 20, nil)
	receive(t, h, 5, all[:5]...)
	receive(t, h, 15, all...)
	var want []*queue.Job
	for _, x := range all {
		want = append(want, x.Job)
	}
	wantIDs(t, "received jobs", claimAll(t, h, 20), want)
}

// testReceivePast: a received job is what it was in its first backend.
func testReceivePast(t *testing.T, h Harness) {
	at := time.Date(2020, 2, 3, 4, 5, 6, 789_000, time.UTC)
	all := transfers("a", 2, func(i int, j *queue.Job) {
		j.CreatedAt, j.ScheduledAt = at, at.Add(time.Hour)
		j.Attempt, j.LastError, j.MaxAttempts = 3, "declined \"ä\", {NULL}\\", 7
		j.Priority, j.Key, j.Group, j.Cost = -4, "key", "group", 5
		j.Headers = map[string]string{"trace": "é"}
		if i == 1 {
			j.CreatedAt, j.Attempt, j.LastError, j.Key = time.Time{}, 0, "", ""
			j.Ordered, j.Priority = true, 0
		}
	})
	before := time.Now().Add(-time.Minute)
	receive(t, h, 2, all...)
	want := *all[0].Job
	got, _ := lookUp(t, h, want.ID)
	want.Payload, got.Payload = nil, nil
	if !reflect.DeepEqual(got.Job, want) || got.Status != queue.StatusPending {
		t.Errorf("the received job:\n got %+v\nwant %+v", got.Job, want)
	}
	if fresh, _ := lookUp(t, h, all[1].Job.ID); fresh.CreatedAt.Before(before) || !fresh.Ordered || fresh.Attempt != 0 || fresh.LastError != "" {
		t.Errorf("a received job without a past: got %+v", fresh.Job)
	}
	first := claimAll(t, h, 2)[0]
	if first.ID != want.ID || first.Attempt != 4 {
		t.Errorf("its next run: got job %d in attempt %d, want job %d in attempt 4", first.ID, first.Attempt, want.ID)
	}
}

// testReceiveKeys: a live job's key counts, and a source counts after that.
func testReceiveKeys(t *testing.T, h Harness) {
	live := newJob()
	live.Key = "k"
	enqueue(t, h, live)
	withKey := func(_ int, j *queue.Job) { j.Key, j.Attempt = "k", 2 }
	first := transfers("a", 1, withKey)
	receive(t, h, 1, first...)
	if j := first[0].Job; !j.Duplicate || j.ID != live.ID {
		t.Errorf("a job whose key a live one has: got ID %d, Duplicate %v; want %d, true", j.ID, j.Duplicate, live.ID)
	}
	held := claimOne(t, h)
	if held.Attempt != 1 {
		t.Errorf("attempt of the live job: got %d, want 1", held.Attempt)
	}
	settle(t, h, outcomes(queue.Done, held)...)
	receive(t, h, 0, transfers("a", 1, withKey)...)
	claimNone(t, h, "after a duplicate was sent again")
	receive(t, h, 1, transfers("b", 1, withKey)...)
	replacing := transfers("c", 1, func(i int, j *queue.Job) {
		withKey(i, j)
		j.OnDuplicate, j.Payload = queue.Replace, []byte("7")
	})
	receive(t, h, 1, replacing...)
	if !replacing[0].Job.Replaced {
		t.Error("a job that replaces a pending one: Replaced is false")
	}
	if j := claimOne(t, h); string(j.Payload) != "7" {
		t.Errorf("payload after a replacement: got %s, want 7", j.Payload)
	}
}

// testReceiveBad: a bad transfer is named, and then nothing is received or remembered.
func testReceiveBad(t *testing.T, h Harness) {
	receiver, _ := driver.As[driver.Receiver](h.Queue)
	for field, spoil := range map[string]func(*driver.Transfer){
		"Source":    func(x *driver.Transfer) { x.Source = "" },
		"Kind":      func(x *driver.Transfer) { x.Job.Kind = "" },
		"Job":       func(x *driver.Transfer) { x.Job = nil },
		"Attempt":   func(x *driver.Transfer) { x.Job.Attempt = -1 },
		"CreatedAt": func(x *driver.Transfer) { x.Job.CreatedAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"LastError": func(x *driver.Transfer) { x.Job.LastError = "\x00" },
		"Payload":   func(x *driver.Transfer) { x.Job.Payload = longPayload },
	} {
		bad := transfers("a", 2, nil)
		spoil(&bad[1])
		n, err := receiver.Receive(t.Context(), bad...)
		invalid, ok := errors.AsType[*queue.InvalidError](err)
		if !ok || invalid.Field != field || n != 0 {
			t.Errorf("a bad %s: got %d, error %v", field, n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := receiver.Receive(ctx, transfers("a", 2, nil)...); !errors.Is(err, ctx.Err()) || n != 0 {
		t.Errorf("after its context has ended: got %d, error %v", n, err)
	}
	claimNone(t, h, "after bad calls")
	receive(t, h, 2, transfers("a", 2, nil)...)
}

// testReceiveTogether: of callers that send the same jobs in different orders, each job comes once.
func testReceiveTogether(t *testing.T, h Harness) {
	const callers, jobs = 8, 30
	receiver, _ := driver.As[driver.Receiver](h.Queue)
	var received atomic.Int64
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			mine := transfers("a", jobs, func(i int, j *queue.Job) { j.Key = fmt.Sprint("k", i%20) })
			for i := range mine {
				k := (i*7 + c*3) % jobs
				mine[i], mine[k] = mine[k], mine[i]
			}
			n, err := receiver.Receive(t.Context(), mine...)
			if err != nil {
				t.Errorf("Receive beside others: %v", err)
			}
			received.Add(int64(n))
		})
	}
	all.Wait()
	if received.Load() != jobs {
		t.Errorf("jobs received by all callers: got %d, want %d", received.Load(), jobs)
	}
	claimAll(t, h, 20)
}

func testReceiveWakes(t *testing.T, h Harness) {
	n := 0
	send := func() {
		n++
		receive(t, h, 1, transfers(fmt.Sprint("a", n), 1, nil)...)
	}
	d := listens(t, h, "w", []string{"q"}, send)
	wantPrompt(t, h, d, "Receive", send)
}
