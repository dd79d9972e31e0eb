// Remote has workers in Go, Python and JavaScript that work off one queue without a connection to
// its database, over two gateways:
//
//	go run ./examples/remote
//
// The jobs count words. Meanwhile the Python worker is killed, and one of the gateways ends as in a
// deploy. An audit at the end says who did what, and checks each result.
//
// Where to read: worker.py and worker.mjs are the workers; gateways.go serves the queue; crew.go
// starts the workers; audit.go compares results.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/examples/internal/place"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// jobs is how many texts are counted; every slowEvery-th takes longer than a lease.
const (
	jobs      = 400
	slowEvery = 100
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := find(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "remote:", err)
		os.Exit(1)
	}
}

// find runs the program on the database that it finds.
func find(ctx context.Context) (err error) {
	database, err := place.Find(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Remove()) }()
	fmt.Println(database.Description)
	return run(ctx, database.URL)
}

// run runs the gateways and the workers until all jobs are done, and audits them.
func run(ctx context.Context, databaseURL string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	d, err := dburl.Open(databaseURL, dburl.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	token := rand.Text()
	first, err := startGateway(d.Queue, token)
	if err != nil {
		return err
	}
	defer first.end()
	second, err := startGateway(d.Queue, token)
	if err != nil {
		return err
	}
	defer second.end()
	c, err := startCrew(ctx, []string{first.url, second.url}, token)
	if err != nil {
		return err
	}
	texts, err := disturb(ctx, d.Queue, first, c)
	if err := errors.Join(err, c.end()); err != nil {
		return err
	}
	return audit(ctx, d.Queue, texts)
}

// disturb enqueues the jobs, kills a worker and ends a gateway while the jobs run, and waits until
// all are done. It returns the text of each job, by its ID.
func disturb(ctx context.Context, q queue.Queue, first *server, c *crew) (map[int64]Text, error) {
	texts, err := enqueue(ctx, q)
	if err != nil {
		return nil, err
	}
	steps := []struct {
		done int
		what string
		do   func()
	}{
		{jobs / 8, "the Python worker is killed, and another is started", c.replacePython},
		{jobs / 2, "the first gateway ends: its clients go to the second", first.end},
		{jobs, "", func() {}},
	}
	for _, s := range steps {
		if err := waitFor(ctx, q, s.done); err != nil {
			return nil, err
		}
		if s.what != "" {
			fmt.Printf("%d of %d jobs are done: %s\n", s.done, jobs, s.what)
		}
		s.do()
	}
	return texts, nil
}

// Text is the payload of a job: a text to count, and how long that takes in milliseconds.
type Text struct {
	Text string `json:"text"`
	MS   int    `json:"ms"`
}

// CountWords is the kind that the workers have in common, whatever their language.
var CountWords = queue.Kind[Text]{Name: "text.count", Queue: "texts", MaxAttempts: 5}

// enqueue writes the jobs, and returns the text of each, by its ID.
func enqueue(ctx context.Context, q queue.Queue) (map[int64]Text, error) {
	all := make([]*queue.Job, jobs)
	payloads := make([]Text, jobs)
	for i := range all {
		payloads[i] = textOf(i)
		all[i] = CountWords.New(payloads[i])
	}
	if err := q.Enqueue(ctx, nil, all...); err != nil {
		return nil, err
	}
	texts := make(map[int64]Text, jobs)
	for i, j := range all {
		texts[j.ID] = payloads[i]
	}
	return texts, nil
}

// textOf returns a text of i mod 20 words.
func textOf(i int) Text {
	t := Text{MS: 60}
	if i%slowEvery == 0 {
		t.MS = int(lease.Milliseconds()) * 3 / 2
	}
	for w := range i % 20 {
		t.Text += fmt.Sprintf("wörd%d ", w)
	}
	return t
}

// waitFor waits until so many jobs are completed.
func waitFor(ctx context.Context, q queue.Queue, n int) error {
	inspector, ok := driver.As[driver.Inspector](q)
	if !ok {
		return errors.New("the backend cannot count jobs")
	}
	for {
		counts, err := inspector.Counts(ctx)
		if err != nil {
			return err
		}
		done := 0
		for _, c := range counts {
			if c.Status == queue.StatusCompleted {
				done += int(c.Jobs)
			}
		}
		if done >= n {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs are done: %w", done, jobs, ctx.Err())
		}
	}
}
