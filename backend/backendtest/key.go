package backendtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/errandhq/errand/queue"
)

var keyCases = []testCase{
	{"held by a pending and by a running job", anything, testKeyHeld},
	{"held while a job waits for its retry", anything, testKeyHeldByRetry},
	{"free after done and after dead", anything, testKeyFreed},
	{"within one batch", isInOrder, testKeyInBatch},
	{"of each queue", anything, testKeyPerQueue},
	{"exact", anything, testKeyExact},
	{"concurrent batches in different orders", anything, testKeyRace},
}

// keyed returns a job with the key.
func keyed(key string) *queue.Job {
	j := newJob()
	j.Key = key
	return j
}

// wantDuplicate checks that j was not written, because live holds its key.
func wantDuplicate(t *testing.T, when string, j, live *queue.Job) {
	t.Helper()
	if !j.Duplicate || j.ID != live.ID {
		t.Fatalf("Enqueue of key %q %s: got ID %d, Duplicate %v; want %d, true", j.Key, when, j.ID, j.Duplicate, live.ID)
	}
}

// wantWritten checks that the jobs were written.
func wantWritten(t *testing.T, when string, jobs ...*queue.Job) {
	t.Helper()
	for _, j := range jobs {
		if j.Duplicate || j.ID == 0 {
			t.Fatalf("Enqueue of key %q %s: got ID %d, Duplicate %v; want a new ID, false", j.Key, when, j.ID, j.Duplicate)
		}
	}
}

func testKeyHeld(t *testing.T, h Harness) {
	first, second, third, none := keyed("a"), keyed("a"), keyed("a"), newJob()
	enqueue(t, h, first)
	wantWritten(t, "that is free", first)
	second.Payload = []byte(`"not written"`)
	enqueue(t, h, second, none)
	wantDuplicate(t, "that a pending job holds", second, first)
	wantWritten(t, "that is empty", none)
	held := claimAll(t, h, 2)
	wantIDs(t, "claim", held, []*queue.Job{first, none})
	wantJSON(t, "payload of the key's holder", held[0].Payload, string(first.Payload))
	enqueue(t, h, third)
	wantDuplicate(t, "that a running job holds", third, first)
	claimNone(t, h, "after a duplicate")
}

func testKeyHeldByRetry(t *testing.T, h Harness) {
	first := keyed("a")
	enqueue(t, h, first)
	for _, action := range []queue.OutcomeAction{queue.Retry, queue.Release} {
		settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: action})
		again := keyed("a")
		enqueue(t, h, again)
		wantDuplicate(t, fmt.Sprintf("after %v", action), again, first)
	}
}

func testKeyFreed(t *testing.T, h Harness) {
	j := keyed("a")
	for _, action := range []queue.OutcomeAction{queue.Done, queue.Dead, queue.Done} {
		old := j.ID
		enqueue(t, h, j) // the same job again: Duplicate and ID are filled in anew
		wantWritten(t, "that is free", j)
		if j.ID == old {
			t.Fatalf("Enqueue of a free key: got the ended job's ID %d", old)
		}
		dup := keyed("a")
		enqueue(t, h, dup)
		wantDuplicate(t, "that is taken again", dup, j)
		settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: action})
	}
}

func testKeyInBatch(t *testing.T, h Harness) {
	live := keyed("live")
	enqueue(t, h, live)
	batch := []*queue.Job{newJob(), keyed("a"), keyed("live"), keyed("a"), keyed("b"), newJob(), keyed("a"), keyed("b")}
	batch[3].Priority = -1
	enqueue(t, h, batch...)
	wantWritten(t, "that is the first of its batch", batch[0], batch[1], batch[4], batch[5])
	wantDuplicate(t, "that a pending job holds", batch[2], live)
	wantDuplicate(t, "repeated in a batch", batch[3], batch[1])
	wantDuplicate(t, "repeated in a batch", batch[6], batch[1])
	wantDuplicate(t, "repeated in a batch", batch[7], batch[4])
	wantIDs(t, "claim", claimAll(t, h, 5), []*queue.Job{live, batch[0], batch[1], batch[4], batch[5]})
}

func testKeyPerQueue(t *testing.T, h Harness) {
	a, b, unnamed, named := keyed("a"), keyed("a"), keyed("a"), keyed("a")
	b.Queue, unnamed.Queue, named.Queue = "p", "", queue.DefaultQueue
	enqueue(t, h, a, b, unnamed, named)
	wantWritten(t, "that another queue's job has", a, b, unnamed)
	wantDuplicate(t, "that a job of the default queue holds", named, unnamed)
}

func testKeyExact(t *testing.T, h Harness) {
	var jobs []*queue.Job
	for _, key := range []string{"key", "KEY", "key ", " key", "kéy", "ke\u0301y", "k%", "k_y"} {
		jobs = append(jobs, keyed(key))
	}
	enqueue(t, h, jobs...)
	wantWritten(t, "beside keys that are alike", jobs...)
}

func testKeyRace(t *testing.T, h Harness) {
	const enqueuers, rounds, keys = 6, 10, 20
	var mu sync.Mutex
	seen := make(map[string]map[int64]bool) // by key, the IDs that Enqueue gave
	var wg sync.WaitGroup
	for range enqueuers {
		wg.Go(func() {
			for range rounds {
				batch := make([]*queue.Job, keys)
				for i, k := range rand.Perm(keys) {
					batch[i] = keyed(fmt.Sprint("key", k))
				}
				if err := h.Queue.Enqueue(t.Context(), nil, batch...); err != nil {
					t.Errorf("Enqueue of %d keys in random order beside others: %v", keys, err)
					return
				}
				mu.Lock()
				for _, j := range batch {
					if seen[j.Key] == nil {
						seen[j.Key] = make(map[int64]bool)
					}
					seen[j.Key][j.ID] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	live := make(map[string]int64)
	for _, j := range claimAll(t, h, keys) {
		live[j.Key] = j.ID
	}
	for key, ids := range seen {
		if len(ids) != 1 || !ids[live[key]] {
			t.Errorf("IDs of key %q: got %v, want only the live job's, %d", key, slices.Collect(maps.Keys(ids)), live[key])
		}
	}
}
