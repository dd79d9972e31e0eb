package backendtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// promptly bounds the time from a commit until a sleeping worker is woken, in most of some tries.
const (
	promptly = 50 * time.Millisecond
	tries    = 7
	// asleep is about how long a worker takes to fall asleep.
	asleep = 50 * time.Millisecond
)

var waitCases = []testCase{
	{"enqueue wakes within 50 ms", hasWakeUps, testWakeUp},
	{"commit wakes within 50 ms", hasWakeUps | hasTx, testWakeUpByCommit},
	{"commit wakes a worker that fell asleep before", hasWakeUps | hasTx, testWakeUpByLateCommit},
	{"redrive wakes", hasWakeUps | hasEditor, testWakeUpByRedrive},
	{"retry and release wake", hasWakeUps, testWakeUpBySettle},
	{"the commit of a release wakes", hasWakeUps | hasTx, testWakeUpBySettleIn},
	{"replace wakes", hasWakeUps, testReplaceWakes},
	{"receive wakes within 50 ms", hasWakeUps | hasReceiver, testReceiveWakes},
	{"reclaim wakes", hasWakeUps | hasReclaimer, testWakeUpByReclaim},
	{"every job starts when it is due", hasWakeUps | hasEditor | hasReclaimer, testStartsWhenDue},
	{"every sleeper is woken", hasWakeUps, testWakeAll},
	{"a queue of several", hasWakeUps, testWakeUpOfSeveral},
	{"Listen ends with its context", hasWakeUps, testListenEnds},
	{"Listen says that it polls", isPolling, testListenPolls},
	{"when the next job is due", hasWakeUps, testSleepNext},
}

// sleeper is a sleeping worker.
type sleeper struct {
	name   string
	queues []string
	woken  chan struct{}
}

// listens starts a worker that listens until the test ends. It returns when do can wake that
// worker.
func listens(t *testing.T, h Harness, name string, queues []string, do func()) *sleeper {
	t.Helper()
	waiter, _ := driver.As[driver.Waiter](h.Queue)
	d := &sleeper{name, queues, make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- waiter.Listen(ctx, name, queues, func(s driver.Signal) {
			if !s.Jobs {
				return
			}
			select {
			case d.woken <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Listen: %v", err)
		}
	})
	poll(t, "a first wake-up", func() bool {
		d.sleep(t, h)
		do()
		return d.isWoken(asleep)
	})
	return d
}

func (d *sleeper) sleep(t *testing.T, h Harness) time.Duration {
	t.Helper()
	waiter, _ := driver.As[driver.Waiter](h.Queue)
	d.isWoken(0) // forget earlier wake-ups
	next, err := waiter.Sleep(t.Context(), d.name, d.queues)
	if err != nil {
		t.Fatalf("Sleep: %v", err)
	}
	return next
}

// isWoken reports whether a wake-up comes within that time.
func (d *sleeper) isWoken(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-d.woken:
		return true
	case <-timer.C:
		return len(d.woken) > 0
	}
}

// wantPrompt checks that do wakes d promptly in most of several tries. The worker has registered
// before do runs. The wake-up races with a rival that sleeps for the promised time and then makes
// one claim, which begins when do has returned: a busy machine slows both.
func wantPrompt(t *testing.T, h Harness, d *sleeper, what string, do func()) {
	t.Helper()
	won := 0
	for range tries {
		d.sleep(t, h)
		do()
		rival, stop := startRival(t, h)
		if !d.isWoken(patience) {
			t.Fatalf("%s did not wake a sleeping worker within %v", what, patience)
		}
		select {
		case <-rival:
		default:
			won++
		}
		stop()
	}
	if won <= tries/2 {
		t.Errorf("after %s, %d of %d wake-ups came sooner than one that claims after %v", what, won, tries, promptly)
	}
}

// startRival begins a claim of another queue after promptly, and returns a channel that is closed
// when it has ended. stop waits for that, or skips the claim.
func startRival(t *testing.T, h Harness) (done <-chan struct{}, stop func()) {
	claimed, stopped := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		select {
		case <-time.After(promptly):
		case <-stopped:
			return
		}
		req := request(1)
		req.Queues, req.Worker = []string{"elsewhere"}, "rival"
		if _, err := h.Queue.Claim(t.Context(), req); err != nil {
			t.Errorf("Claim of another queue: %v", err)
		}
		close(claimed)
	})
	return claimed, func() { close(stopped); running.Wait() }
}

func testWakeUp(t *testing.T, h Harness) {
	one := func() { enqueue(t, h, newJob()) }
	d := listens(t, h, "w", []string{"q"}, one)
	wantPrompt(t, h, d, "Enqueue", one)
}

func testWakeUpByCommit(t *testing.T, h Harness) {
	var tx Tx
	one := func() {
		tx = begin(t, h)
		enqueueIn(t, h, tx, newJob())
		commit(t, tx)
	}
	d := listens(t, h, "w", []string{"q"}, one)
	wantPrompt(t, h, d, "the commit of an Enqueue", one)
}

// testWakeUpByLateCommit: a worker that falls asleep between an Enqueue and its commit is woken, or
// looks again soon.
func testWakeUpByLateCommit(t *testing.T, h Harness) {
	d := listens(t, h, "w", []string{"q"}, func() { enqueue(t, h, newJob()) })
	claim(t, h, request(1000))
	tx := begin(t, h)
	enqueueIn(t, h, tx, newJob())
	next := d.sleep(t, h)
	commit(t, tx)
	looksAgain := next >= 0 && next < patience
	if !looksAgain {
		next = patience
	}
	if !d.isWoken(next) && !looksAgain {
		t.Fatalf("a worker that fell asleep between an Enqueue and its commit was not woken within %v", patience)
	}
	claimOne(t, h)
}

func testWakeUpByRedrive(t *testing.T, h Harness) {
	editor, _ := driver.As[driver.Editor](h.Queue)
	enqueue(t, h, newJobs(1000, nil)...)
	dead := claimAll(t, h, 1000)
	settle(t, h, outcomes(queue.Dead, dead...)...)
	one := func() {
		if len(dead) == 0 {
			t.Fatal("1,000 jobs were redriven before the first wake-up")
		}
		which := queue.Selection{IDs: []int64{dead[0].ID}}
		dead = dead[1:]
		if n, err := editor.Redrive(t.Context(), nil, which); err != nil || n != 1 {
			t.Fatalf("Redrive: %d, %v; want 1", n, err)
		}
	}
	d := listens(t, h, "w", []string{"q"}, one)
	wantPrompt(t, h, d, "Redrive", one)
}

func testWakeAll(t *testing.T, h Harness) {
	one := func() { enqueue(t, h, newJob()) }
	d1 := listens(t, h, "w1", []string{"q"}, one)
	d2 := listens(t, h, "w2", []string{"q"}, one)
	d1.sleep(t, h)
	d2.sleep(t, h)
	one()
	if w1, w2 := d1.isWoken(patience), d2.isWoken(patience); !w1 || !w2 {
		t.Errorf("two workers slept on a queue, one job was enqueued: woken %v and %v, want both", w1, w2)
	}
}

func testWakeUpOfSeveral(t *testing.T, h Harness) {
	name := "p"
	one := func() {
		j := newJob()
		j.Queue = name
		enqueue(t, h, j)
	}
	d := listens(t, h, "w", []string{"o", "p", "q"}, one)
	for _, name = range []string{"o", "q", "p"} {
		d.sleep(t, h)
		one()
		if !d.isWoken(patience) {
			t.Fatalf("a worker slept on the queues o, p and q, and a job was enqueued in %s: not woken within %v", name, patience)
		}
	}
}

func testListenEnds(t *testing.T, h Harness) {
	waiter, _ := driver.As[driver.Waiter](h.Queue)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- waiter.Listen(ctx, "w", []string{"q"}, func(driver.Signal) {}) }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Listen after its context was cancelled: got error %v, want none", err)
		}
	case <-time.After(patience):
		t.Errorf("Listen did not return within %v of its context's end", patience)
	}
}

func testListenPolls(t *testing.T, h Harness) {
	waiter, _ := driver.As[driver.Waiter](h.Queue)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := waiter.Listen(ctx, "w", []string{"q"}, func(driver.Signal) {})
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Listen without the means to wake: got error %v, want one that says so, at once", err)
	}
}

func testSleepNext(t *testing.T, h Harness) {
	d := &sleeper{name: "w", queues: []string{"q", "p"}}
	wantDueNext(t, h, d, "without jobs", -1)
	elsewhere, running := newJob(), newJob()
	elsewhere.Queue, elsewhere.Delay = "o", time.Minute
	enqueue(t, h, elsewhere, running)
	claimOne(t, h)
	wantDueNext(t, h, d, "with one job in another queue and one running", -1)
	for _, minutes := range []int{90, 60, 75} { // the first of them counts
		j := newJob()
		j.Queue, j.Delay = d.queues[minutes%2], time.Duration(minutes)*time.Minute
		enqueue(t, h, j)
	}
	wantDueNext(t, h, d, "with jobs due in 60, 75 and 90 minutes", time.Hour)
}

// wantDueNext checks that Sleep returns that its next job is due just before next, or below 0 for
// none. It may want to be called again soon at first, while a transaction is open that may make
// jobs pending: a gateway reclaims by itself.
func wantDueNext(t *testing.T, h Harness, d *sleeper, when string, next time.Duration) {
	t.Helper()
	poll(t, fmt.Sprintf("Sleep %s to return %v", when, next), func() bool {
		switch got := d.sleep(t, h); {
		case got >= 0 && got <= time.Second:
			return false
		case next < 0 && got >= 0, next >= 0 && (got > next || got < next-time.Minute):
			t.Fatalf("Sleep %s: got next %v, want %v", when, got, next)
		}
		return true
	})
}
