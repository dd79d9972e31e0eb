package queue_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// cancelJob is an admin endpoint: POST /jobs/{id}/cancel.
func cancelJob(q driver.Canceller) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil {
			http.Error(w, "no job has that id", http.StatusNotFound)
			return
		}
		n, err := q.Cancel(r.Context(), nil, queue.Selection{IDs: []int64{id}})
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case n == 0:
			http.Error(w, "there is no such job, or it has ended", http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}
}

func ExampleSelection() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	job := queue.NewKind[string]("report.build").New("2026")
	if err := q.Enqueue(ctx, nil, job); err != nil {
		panic(err)
	}

	mux := http.NewServeMux()
	mux.Handle("POST /jobs/{id}/cancel", cancelJob(q))
	for range 2 {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest("POST", fmt.Sprintf("/jobs/%d/cancel", job.ID), nil))
		fmt.Println(answer.Code)
	}
	r, _, _ := q.Job(ctx, job.ID)
	fmt.Println(r.Status)
	// Output:
	// 202
	// 404
	// cancelled
}

func ExampleJobChange() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	job := queue.NewKind[string]("report.build").New("2026")
	job.Delay = 24 * time.Hour
	if err := q.Enqueue(ctx, nil, job); err != nil {
		panic(err)
	}

	urgent := int32(-10)
	n, err := q.Edit(ctx, nil, queue.Selection{Kind: "report.build"}, queue.JobChange{RunNow: true, Priority: &urgent})
	fmt.Println(n, err)
	r, _, _ := q.Job(ctx, job.ID)
	fmt.Println(time.Until(r.ScheduledAt) < time.Second, r.Priority)
	// Output:
	// 1 <nil>
	// true -10
}

func ExampleSelection_delete() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	if err := q.Enqueue(ctx, nil, queue.NewKind[string]("report.build").New("2026")); err != nil {
		panic(err)
	}
	job, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "w"})
	if err != nil {
		panic(err)
	}
	if _, err := q.Settle(ctx, nil, queue.Outcome{Job: job[0], Action: queue.Dead}); err != nil {
		panic(err)
	}
	n, err := q.Delete(ctx, nil, queue.Selection{Kind: "report.build", Status: queue.StatusDead})
	fmt.Println(n, err)
	_, ok, _ := q.Job(ctx, job[0].ID)
	fmt.Println(ok)
	// Output:
	// 1 <nil>
	// false
}

// During an incident a kind is paused, and later goes on.
func Example_pauseKinds() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	mux := queue.NewMux()
	done := make(chan string, 1)
	mux.Handle("email.welcome", queue.HandlerFunc(func(context.Context, *queue.Job) error {
		done <- "sent"
		return nil
	}))
	if _, err := q.Pause(ctx, nil, queue.Target{Kind: "email.welcome"}, true); err != nil {
		panic(err)
	}
	if err := q.Enqueue(ctx, nil, &queue.Job{Kind: "email.welcome"}); err != nil {
		panic(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- engine.Worker{Backend: q, Handler: mux}.Run(running) }()

	kinds, _ := q.PausedKinds(ctx)
	fmt.Println("paused:", kinds)
	if _, err := q.Pause(ctx, nil, queue.Target{Kind: "email.welcome"}, false); err != nil {
		panic(err)
	}
	fmt.Println(<-done)
	stop()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output:
	// paused: [email.welcome]
	// sent
}
