package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// event is one job that a replacer has enqueued: for one key, and with a number of its own as its
// payload.
type event struct {
	key          string
	began, ended time.Duration // its Enqueue
}

// replaceRace is what replacers and claimers have done.
type replaceRace struct {
	h       Harness
	started time.Time

	mu     sync.Mutex
	events []event
	ran    map[int]int // how often each event was claimed, by its number
}

// testReplacersBesideClaimers: what is enqueued last of a key is run, whatever is claimed, retried
// and released meanwhile. The batches have the keys in different orders.
func testReplacersBesideClaimers(t *testing.T, h Harness) {
	const clients, rounds = 8, 25
	r := &replaceRace{h: h, started: time.Now(), ran: make(map[int]int)}
	var replacers, claimers sync.WaitGroup
	var done atomic.Bool
	for range clients {
		replacers.Go(func() {
			for range rounds {
				r.replace(t)
			}
		})
		claimers.Go(func() {
			for !done.Load() {
				// Without a pause 98% of the claims are empty, and take most of the CPU time.
				if r.work(t) == 0 {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	replacers.Wait()
	done.Store(true)
	claimers.Wait()
	r.drain(t)
	r.check(t)
}

// replace enqueues a batch of keys in random order, some of them twice.
func (r *replaceRace) replace(t *testing.T) {
	const keys = 10
	batch := make([]*queue.Job, 1+rand.IntN(keys))
	r.mu.Lock()
	first := len(r.events)
	for i := range batch {
		batch[i] = keyed(fmt.Sprint("key", rand.IntN(keys)))
		batch[i].OnDuplicate, batch[i].MaxAttempts = queue.Replace, 1_000_000
		batch[i].Payload = json.RawMessage(fmt.Sprint(first + i))
		r.events = append(r.events, event{key: batch[i].Key, began: time.Since(r.started)})
	}
	r.mu.Unlock()
	if err := r.h.Queue.Enqueue(context.WithoutCancel(t.Context()), nil, batch...); err != nil {
		t.Errorf("Enqueue with Replace of %d keys beside others: %v", len(batch), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range batch {
		r.events[first+i].ended = time.Since(r.started)
	}
}

// work claims some jobs, and completes, retries or releases them. It returns how many.
func (r *replaceRace) work(t *testing.T) int {
	ctx := context.WithoutCancel(t.Context())
	held, err := r.h.Queue.Claim(ctx, request(5))
	if err != nil {
		t.Errorf("Claim beside replacers: %v", err)
		return 0
	}
	if len(held) == 0 {
		return 0
	}
	outcomes := make([]queue.Outcome, len(held))
	r.mu.Lock()
	for i, j := range held {
		var n int
		_ = json.Unmarshal(j.Payload, &n)
		r.ran[n]++
		outcomes[i] = queue.Outcome{Job: j, Action: []queue.OutcomeAction{queue.Done, queue.Done, queue.Retry, queue.Release}[rand.IntN(4)]}
	}
	r.mu.Unlock()
	r.settle(ctx, t, outcomes)
	return len(held)
}

// drain works until no job is live. A claim may miss jobs at first, even the last ones.
func (r *replaceRace) drain(t *testing.T) {
	inspector, _ := driver.As[driver.Inspector](r.h.Queue)
	for begun := time.Now(); time.Since(begun) < patience; {
		if r.work(t) > 0 {
			continue
		}
		live, _, err := inspector.Jobs(t.Context(), queue.Filter{Status: queue.StatusPending, Limit: 1})
		if err != nil {
			t.Fatalf("Jobs: %v", err)
		}
		if len(live) == 0 {
			return
		}
	}
}

// settle settles the outcomes, those of locked jobs again until they are free.
func (r *replaceRace) settle(ctx context.Context, t *testing.T, outcomes []queue.Outcome) {
	for {
		lost, err := r.h.Queue.Settle(ctx, nil, outcomes...)
		var locked *driver.LockedError
		if len(lost) > 0 || err != nil && !errors.As(err, &locked) {
			t.Errorf("Settle beside replacers: lost %v, error %v; want none", ids(lost), err)
		}
		if locked == nil {
			return
		}
		outcomes = slices.DeleteFunc(outcomes, func(o queue.Outcome) bool { return !slices.Contains(locked.Jobs, o.Job) })
	}
}

// check checks that each event that was not run was replaced by one that was: one whose Enqueue
// ended after its own had begun.
func (r *replaceRace) check(t *testing.T) {
	last := make(map[string]time.Duration)
	for n := range r.ran {
		e := r.events[n]
		last[e.key] = max(last[e.key], e.ended)
	}
	lost := 0
	for n, e := range r.events {
		if r.ran[n] == 0 && last[e.key] < e.began {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("of %d jobs that replaced each other %d were lost: neither they nor any later job of their keys ran", len(r.events), lost)
	}
	if len(r.ran) == len(r.events) {
		t.Logf("no job was replaced before it was claimed")
	}
}
