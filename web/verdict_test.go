package web_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestVerdictUnknown: it does not say that all is well if something could not be read.
func TestVerdictUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &slow{Queue: memory.New(memory.Options{})}
		h := newHandler(t, q)
		wantTexts(t, page(h, "/"), []string{"All well"})
		q.fails.Store(true)
		time.Sleep(10 * time.Second)
		got := page(h, "/")
		wantTexts(t, got, []string{"Unknown", "Nothing is wrong in what could be read."})
		if strings.Contains(got, "All well") {
			t.Errorf("it says that all is well:\n%s", got)
		}
	})
}

// TestVerdict: the first line of the overview says what is worst.
func TestVerdict(t *testing.T) {
	alive := func(t *testing.T, q *memory.Queue, name string) {
		info := driver.WorkerInfo{Name: name, Queues: []string{"mail"}, Concurrency: 10}
		if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: info}); err != nil {
			t.Fatal(err)
		}
	}
	due := func(t *testing.T, q *memory.Queue) {
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "a", Queue: "mail"}); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		make func(t *testing.T, q *memory.Queue)
		want []string
	}{
		"nothing":   {func(*testing.T, *memory.Queue) {}, []string{"All well", "No job is due and waiting."}},
		"served":    {func(t *testing.T, q *memory.Queue) { due(t, q); alive(t, q, "w") }, []string{"All well", "No job has been due for longer than 1 s."}},
		"no worker": {func(t *testing.T, q *memory.Queue) { due(t, q) }, []string{"No workers", "Jobs are due, and no worker has reported itself."}},
		"behind": {func(t *testing.T, q *memory.Queue) { due(t, q); time.Sleep(2 * time.Minute); alive(t, q, "w") },
			[]string{"Behind", "The oldest due job of queue mail has waited for 2 min."}},
		"stuck": {func(t *testing.T, q *memory.Queue) { due(t, q); time.Sleep(20 * time.Minute); alive(t, q, "w") },
			[]string{"Stuck", "The oldest due job of queue mail has waited for 20 min."}},
		"paused": {func(t *testing.T, q *memory.Queue) {
			due(t, q)
			alive(t, q, "w")
			if _, err := q.Pause(t.Context(), nil, queue.Target{Queue: "mail"}, true); err != nil {
				t.Fatal(err)
			}
		}, []string{"Paused", "Queue mail is paused. Its oldest due job has waited for 0 ms."}},
		"worker lost": {func(t *testing.T, q *memory.Queue) {
			alive(t, q, "gone")
			time.Sleep(10 * time.Minute)
			alive(t, q, "w")
		}, []string{"Workers lost", "1 worker without a sign of life for 35 s."}},
		"lease expired": {func(t *testing.T, q *memory.Queue) {
			due(t, q)
			alive(t, q, "w")
			if _, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"mail"}, Limit: 1, Lease: time.Second, Worker: "w"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}, []string{"Workers lost", "1 running job whose lease has expired"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := memory.New(memory.Options{})
				test.make(t, q)
				wantTexts(t, page(newHandler(t, q), "/"), test.want)
			})
		})
	}
}
