package health_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/health"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// A program with a worker is ready once the worker has claimed.
func ExampleReady() {
	q := queuetest.New(queuetest.Options{}) // or postgres.New(db, …)
	watched := health.Watch(q)
	mux := http.NewServeMux()
	mux.Handle("/live", health.Live())
	mux.Handle("/ready", health.Ready(q, watched))

	fmt.Print(probe(mux, "/live"), probe(mux, "/ready"))

	handled := make(chan bool)
	handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
		handled <- true
		return nil
	})
	if err := q.Enqueue(context.Background(), nil, &queue.Job{Kind: "email.welcome"}); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Worker{Backend: watched, Handler: handler}.Run(ctx) }()
	<-handled
	fmt.Print(probe(mux, "/ready"))

	stop()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output:
	// 200 live
	// 503 not ready: the worker has not claimed yet
	// 200 ready
}

// probe asks as Kubernetes does.
func probe(h http.Handler, path string) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return fmt.Sprint(w.Code, " ", w.Body)
}
