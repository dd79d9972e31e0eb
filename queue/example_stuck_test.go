package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// Stuck is a page of the jobs that have been running for longer than ten minutes.
type Stuck struct{ Jobs driver.Inspector }

func (s Stuck) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	stuck, _, err := s.Jobs.Jobs(r.Context(), queue.Filter{RunningFor: 10 * time.Minute, NoPayload: true})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(stuck)
}

// Failing returns the jobs that wait for their third attempt or a later one.
func Failing(ctx context.Context, q driver.Inspector) (all []queue.Record, err error) {
	f := queue.Filter{Status: queue.StatusPending, MinAttempts: 2}
	for {
		page, next, err := q.Jobs(ctx, f)
		all = append(all, page...)
		if err != nil || next == 0 || len(all) >= 100 {
			return all, err
		}
		f.Before = next
	}
}

func ExampleFilter_failing() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	_ = q.Enqueue(ctx, nil, WelcomeEmail.New(Welcome{UserID: 42}))
	for range 2 {
		jobs, _ := q.Claim(ctx, queue.ClaimRequest{Queues: []string{"default"}, Limit: 1, Lease: time.Minute, Worker: "w"})
		_, _ = q.Settle(ctx, nil, queue.Outcome{Job: jobs[0], Action: queue.Retry, Err: errors.New("mail server: 421")})
	}
	_ = q.Enqueue(ctx, nil, WelcomeEmail.New(Welcome{UserID: 43})) // has not failed yet
	failing, _ := Failing(ctx, q)
	for _, r := range failing {
		fmt.Println(r.Kind, r.Attempt, r.LastError)
	}
	// Output: email.welcome 2 mail server: 421
}

func ExampleFilter() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	_ = q.Enqueue(ctx, nil, WelcomeEmail.New(Welcome{UserID: 42}))
	_, _ = q.Claim(ctx, queue.ClaimRequest{Queues: []string{"default"}, Limit: 1, Lease: time.Minute, Worker: "w"})

	page := httptest.NewRecorder()
	Stuck{q}.ServeHTTP(page, httptest.NewRequestWithContext(ctx, "GET", "/stuck", nil))
	fmt.Print("running for ten minutes: ", page.Body)

	jobs, _, _ := q.Jobs(ctx, queue.Filter{RunningFor: time.Nanosecond})
	fmt.Println("running at all:", len(jobs), jobs[0].Kind)
	// Output:
	// running for ten minutes: []
	// running at all: 1 email.welcome
}
