package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// deathAlert counts dead jobs by kind. So 5,000 dead jobs of a kind are one alert.
type deathAlert struct {
	mu    sync.Mutex
	kinds map[string]int
}

// OnDead is for Worker.OnDead.
func (a *deathAlert) OnDead(_ context.Context, job *queue.Job, _ error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kinds[job.Kind]++
}

// Send alerts a person to the jobs that are dead since the last call. Call it every minute, and
// once more when Run has returned.
func (a *deathAlert) Send(alert func(text string)) {
	a.mu.Lock()
	dead := a.kinds
	a.kinds = make(map[string]int)
	a.mu.Unlock()
	for kind, n := range dead {
		alert(fmt.Sprintf("%d jobs %s are dead", n, kind))
	}
}

// OnDead is called for each dead job. A program that alerts a person groups the calls.
func ExampleWorker_onDead_grouped() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	q := queuetest.New(queuetest.Options{})
	for id := range 3 {
		if err := q.Enqueue(ctx, nil, WelcomeEmail.New(Welcome{UserID: int64(id)})); err != nil {
			log.Fatal(err)
		}
	}
	var runs sync.WaitGroup
	runs.Add(3)
	go func() { runs.Wait(); stop() }() // only for this example

	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		defer runs.Done()
		return queue.Discard(errors.New("no such user"))
	})
	alert := &deathAlert{kinds: make(map[string]int)}
	err := engine.Worker{Backend: q, Handler: mux, Logger: slog.New(slog.DiscardHandler), OnDead: alert.OnDead}.Run(ctx)
	alert.Send(func(text string) { fmt.Println(text) })
	fmt.Println("stopped:", err)
	// Output:
	// 3 jobs email.welcome are dead
	// stopped: <nil>
}
