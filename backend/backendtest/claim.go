package backendtest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/errandhq/errand/queue"
)

var claimCases = []testCase{
	{"priority, due time, insertion", anything, testClaimOrder},
	{"queues in the order of the request", anything, testClaimQueues},
	{"limit", anything, testClaimLimit},
	{"bytes", isFull, testClaimBytes},
	{"bytes of sizes that change", anything, testClaimBytesChange},
	{"kinds", anything, testClaimKinds},
	{"delay", anything, testDelay},
	{"scheduled at", anything, testScheduledAt},
	{"what a claim fills in", anything, testClaimFills},
	{"names are exact", anything, testNamesAreExact},
	{"a job keeps no other's payload", anything, testClaimMemory},
	{"8 claimers share 10,000 jobs", isFull, testClaimersShareNone},
}

func testClaimOrder(t *testing.T, h Harness) {
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(priority int32, seconds int) *queue.Job {
		j := newJob()
		j.Priority, j.ScheduledAt = priority, base.Add(time.Duration(seconds)*time.Second)
		return j
	}
	a, b, c, d, e, f := at(1, 0), at(0, 2), at(0, 1), at(-1, 3), at(0, 1), at(0, 2)
	jobs := []*queue.Job{a, b, c, d, e, f}
	want := []*queue.Job{d, c, e, b, f, a}

	enqueue(t, h, jobs...)
	claimed := claim(t, h, request(10))
	wantIDs(t, "one claim of all", claimed, want)
	settle(t, h, outcomes(queue.Done, claimed...)...)

	enqueue(t, h, jobs...)
	claimed = nil
	for range want {
		claimed = append(claimed, claim(t, h, request(1))...)
	}
	wantIDs(t, "claims of one at a time", claimed, want)
}

// testClaimMemory checks that a caller that keeps one job of a claim does not keep the payloads of
// the other jobs in memory.
func testClaimMemory(t *testing.T, h Harness) {
	const n = 20
	enqueue(t, h, newJobs(n, func(_ int, j *queue.Job) {
		j.Payload = fmt.Appendf(nil, "%q", strings.Repeat("x", 10_000))
	})...)
	claimed := claim(t, h, request(n))
	settle(t, h, outcomes(queue.Done, claimed...)...)
	var payloads []weak.Pointer[byte]
	for _, j := range claimed {
		payloads = append(payloads, weak.Make(&j.Payload[0]))
	}
	last := claimed[n-1]
	clear(claimed)
	runtime.GC()
	reachable := 0
	for _, p := range payloads {
		if p.Value() != nil {
			reachable++
		}
	}
	if reachable > 2 {
		t.Errorf("%d of %d payloads are reachable while one job is held, want at most 2", reachable, n)
	}
	runtime.KeepAlive(last)
}

func testClaimQueues(t *testing.T, h Harness) {
	low, high, other := newJob(), newJob(), newJob()
	low.Queue, low.Priority = "low", -5
	high.Queue, high.Priority = "high", 5
	other.Queue = "other"
	enqueue(t, h, low, other, high)
	req := request(10)
	req.Queues = []string{"high", "none", "low", "high"}
	got := claim(t, h, req)
	wantIDs(t, `claim of the queues "high", "none", "low", "high"`, got, []*queue.Job{high, low})

	settle(t, h, outcomes(queue.Release, got...)...)
	req.Limit = 1
	wantIDs(t, "the same with limit 1", claim(t, h, req), []*queue.Job{high})
}

func testClaimLimit(t *testing.T, h Harness) {
	jobs := newJobs(5, nil)
	enqueue(t, h, jobs...)
	wantIDs(t, "first claim with limit 2", claim(t, h, request(2)), jobs[:2])
	wantIDs(t, "second claim with limit 2", claim(t, h, request(2)), jobs[2:4])
	wantIDs(t, "third claim with limit 2", claim(t, h, request(2)), jobs[4:])
	claimNone(t, h, "when all are held")
}

// testClaimBytes claims long jobs, some of which a database can compress.
func testClaimBytes(t *testing.T, h Harness) {
	const length = 1 << 20
	noise := make([]byte, length*3/4)
	_, _ = rand.Read(noise) // never fails
	texts := []string{base64.StdEncoding.EncodeToString(noise)[:length-2], strings.Repeat("x", length-2)}
	jobs := newJobs(20, func(i int, j *queue.Job) { j.Payload = json.RawMessage(`"` + texts[i%2] + `"`) })
	enqueue(t, h, jobs...)
	for _, c := range []struct{ bytes, most int }{{0, 16}, {4 << 20, 4}, {1, 1}, {length, 1}} {
		req := request(100)
		req.Bytes = c.bytes
		got := claim(t, h, req)
		if len(got) < max(c.most/2, 1) || len(got) > c.most {
			t.Errorf("claim with Bytes %d of jobs with a MiB: got %d, want at most %d, and at least half of that", c.bytes, len(got), c.most)
		}
		settle(t, h, outcomes(queue.Release, got...)...)
	}
	var all []*queue.Job
	for range jobs {
		got := claim(t, h, request(100))
		for _, j := range got {
			if len(j.Payload) != length || j.Attempt != 1 {
				t.Fatalf("job %d: got a payload of %d bytes in attempt %d, want %d in the first", j.ID, len(j.Payload), j.Attempt, length)
			}
		}
		if all = append(all, got...); len(all) >= len(jobs) {
			break
		}
	}
	wantIDs(t, "repeated claims", all, jobs)
}

// testClaimBytesChange claims short jobs with long ones between them: the order holds.
func testClaimBytesChange(t *testing.T, h Harness) {
	text := `"` + strings.Repeat("x", 500_000) + `"`
	jobs := newJobs(300, func(i int, j *queue.Job) {
		if i%30 == 20 {
			j.Payload = json.RawMessage(text)
		}
	})
	enqueue(t, h, jobs...)
	req := request(1000)
	req.Bytes = 1 << 20
	var all []*queue.Job
	for range jobs {
		got := claim(t, h, req)
		size := 0
		for _, j := range got {
			size += len(j.Payload)
		}
		if size > req.Bytes || len(got) == 0 {
			t.Fatalf("claim with Bytes %d: got %d jobs of %d bytes", req.Bytes, len(got), size)
		}
		if all = append(all, got...); len(all) >= len(jobs) {
			break
		}
	}
	wantIDs(t, "repeated claims", all, jobs)
}

func testClaimKinds(t *testing.T, h Harness) {
	jobs := newJobs(6, func(i int, j *queue.Job) { j.Kind = fmt.Sprint("kind", i%3) })
	enqueue(t, h, jobs...)
	req := request(10)
	req.Kinds = []string{"kind9"}
	wantIDs(t, "claim of a kind without jobs", claim(t, h, req), nil)
	req.Kinds = []string{"kind2", "kind0"}
	wantIDs(t, "claim of two kinds", claim(t, h, req), []*queue.Job{jobs[0], jobs[2], jobs[3], jobs[5]})
	req.Kinds = nil
	wantIDs(t, "claim of every kind", claim(t, h, req), []*queue.Job{jobs[1], jobs[4]})
}

func testDelay(t *testing.T, h Harness) {
	const delay = 150 * time.Millisecond
	soon, never := newJob(), newJob()
	soon.Delay, never.Delay = delay, time.Hour
	start := time.Now()
	enqueue(t, h, soon, never)
	got := claimSoon(t, h, request(2), 1)
	if early := delay - time.Since(start); early > 0 {
		t.Errorf("a job with Delay %v was claimed %v too early", delay, early)
	}
	wantIDs(t, "jobs due after the delay", got, []*queue.Job{soon})
}

func testScheduledAt(t *testing.T, h Harness) {
	past, soon, never := newJob(), newJob(), newJob()
	past.ScheduledAt = time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)
	soon.ScheduledAt = time.Now().Add(150 * time.Millisecond).In(time.FixedZone("east", 5*3600))
	never.ScheduledAt = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	enqueue(t, h, soon, past, never)
	got := claimSoon(t, h, request(1), 2)
	if early := time.Until(soon.ScheduledAt); early > 0 {
		t.Errorf("a job was claimed %v before its ScheduledAt", early)
	}
	wantIDs(t, "jobs due", got, []*queue.Job{past, soon})
	for i, want := range []time.Time{past.ScheduledAt, soon.ScheduledAt} {
		if d := got[i].ScheduledAt.Sub(want).Abs(); d > time.Microsecond {
			t.Errorf("ScheduledAt of job %d: got %v, want %v", got[i].ID, got[i].ScheduledAt, want)
		}
	}
}

func testClaimFills(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(3, nil)...)
	two := claim(t, h, request(2))
	if len(two) != 2 || two[0].Fence != two[1].Fence || two[0].Fence == 0 {
		t.Fatalf("one claim of two jobs: got %d jobs with fences %v, want 2 with one fence, not 0", len(two), fences(two))
	}
	third := claimOne(t, h)
	if third.Fence == two[0].Fence {
		t.Errorf("two claims drew the same fence %d", third.Fence)
	}
	for _, j := range append(two, third) {
		if j.Attempt != 1 || j.Worker != "w" || j.Delay != 0 || j.Duplicate || j.LastError != "" {
			t.Errorf("claimed job: got %+v, want Attempt 1, Worker w, no Delay, no Duplicate, no LastError", j)
		}
		if j.CreatedAt.IsZero() || j.ScheduledAt.IsZero() || j.MaxAttempts != queue.DefaultMaxAttempts {
			t.Errorf("claimed job: got %+v, want CreatedAt, ScheduledAt and the default MaxAttempts", j)
		}
	}
}

func fences(jobs []*queue.Job) (fences []int64) {
	for _, j := range jobs {
		fences = append(fences, j.Fence)
	}
	return fences
}

func testNamesAreExact(t *testing.T, h Harness) {
	jobs := newJobs(4, func(i int, j *queue.Job) { j.Queue = []string{"a", "A", "a ", "a%"}[i] })
	odd := newJob()
	odd.Queue = `it's {"odd"}, \N 100%; --`
	odd.Kind = odd.Queue
	enqueue(t, h, append(jobs, odd)...)
	for _, want := range append(jobs, odd) {
		req := request(10)
		req.Queues, req.Kinds, req.Worker = []string{want.Queue}, []string{want.Kind}, want.Queue
		got := claim(t, h, req)
		wantIDs(t, fmt.Sprintf("claim of queue %q", want.Queue), got, []*queue.Job{want})
		if got[0].Queue != want.Queue || got[0].Kind != want.Kind || got[0].Worker != want.Queue {
			t.Errorf("claimed job: got queue %q, kind %q, worker %q; want %q, %q, %q",
				got[0].Queue, got[0].Kind, got[0].Worker, want.Queue, want.Kind, want.Queue)
		}
		settle(t, h, queue.Outcome{Job: got[0], Action: queue.Done})
	}
}

func testClaimersShareNone(t *testing.T, h Harness) {
	const total, claimers = 10_000, 8
	for range 10 {
		enqueue(t, h, newJobs(total/10, nil)...)
	}
	var (
		mu    sync.Mutex
		times = make(map[int64]int)
		count atomic.Int64
		wg    sync.WaitGroup
		end   = time.Now().Add(patience)
	)
	for i := range claimers {
		wg.Go(func() {
			req := request(100)
			req.Worker = fmt.Sprint("w", i)
			for count.Load() < total && time.Now().Before(end) {
				jobs := claimAndSettle(t, h, req)
				mu.Lock()
				for _, j := range jobs {
					times[j.ID]++
				}
				mu.Unlock()
				count.Add(int64(len(jobs)))
			}
		})
	}
	wg.Wait()
	for id, n := range times {
		if n > 1 {
			t.Errorf("job %d was claimed %d times", id, n)
		}
	}
	if len(times) != total {
		t.Errorf("%d claimers claimed %d different jobs, want %d", claimers, len(times), total)
	}
	claimNone(t, h, "after the claimers")
}

// claimAndSettle claims once and completes what it got. It may run in any goroutine.
func claimAndSettle(t *testing.T, h Harness, req queue.ClaimRequest) []*queue.Job {
	jobs, err := h.Queue.Claim(t.Context(), req)
	if err != nil {
		t.Errorf("Claim by %s: %v", req.Worker, err)
		return nil
	}
	if lost, err := h.Queue.Settle(t.Context(), nil, outcomes(queue.Done, jobs...)...); err != nil || len(lost) != 0 {
		t.Errorf("Settle by %s: lost %v, error %v; want neither", req.Worker, ids(lost), err)
	}
	return jobs
}
