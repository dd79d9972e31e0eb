package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// HandleMany runs many jobs in one call. Each job has its own answer.
func ExampleKind_HandleMany() {
	ctx, stop := context.WithCancel(context.Background())
	var index = queue.NewKind[string]("search.index")
	q := memory.New(memory.Options{})
	mux := queue.NewMux()
	index.HandleMany(mux, queue.BatchOptions{Size: 50}, func(ctx context.Context, jobs []*queue.Job, pages []string) []error {
		answers := make([]error, len(jobs))
		for i, page := range pages {
			if page == "" {
				answers[i] = queue.Discard(errors.New("no page"))
			}
		}
		fmt.Println("indexed together:", pages)
		stop() // the worker stops after this call
		return answers
	})
	if err := q.Enqueue(ctx, nil, index.New("home"), index.New(""), index.New("about")); err != nil {
		panic(err)
	}
	if err := (engine.Worker{Backend: q, Handler: mux, Concurrency: 100, Logger: slog.New(slog.DiscardHandler)}).Run(ctx); err != nil {
		panic(err)
	}
	counts, _ := q.Counts(context.Background())
	for _, c := range counts {
		fmt.Println(c.Jobs, c.Status)
	}
	// Output:
	// indexed together: [home  about]
	// 2 completed
	// 1 dead
}
