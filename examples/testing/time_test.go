package signup_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	signup "github.com/errandhq/errand/examples/testing"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Time: in a bubble of testing/synctest time passes when all goroutines wait, so a
// real worker goes through an hour of retries, and a day, in milliseconds.
func TestWelcomeOutlastsOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		mailer := &fakeMailer{down: true}
		startWorker(t, q, mailer)
		id := signUp(t, newService(q), "ada@example.com")

		time.Sleep(time.Hour)
		mailer.wantSent(t)
		mailer.setDown(false)
		time.Sleep(time.Hour)
		mailer.wantSent(t, "Welcome to ada@example.com")

		// 30 s, 1 min, 2 min …, and up to 30 % more: the eighth attempt is the first
		// that is later than an hour.
		job := queuetest.WantJob(t, q, signup.WelcomeEmail, signup.Mail{UserID: id, To: "ada@example.com"})
		if job.Status != queue.StatusCompleted || job.Attempt != 8 {
			t.Errorf("job: got %s after attempt %d, want completed after 8", job.Status, job.Attempt)
		}
		time.Sleep(22*time.Hour + time.Minute)
		mailer.wantSent(t, "Welcome to ada@example.com", "A tour to ada@example.com")
	})
}

// startWorker runs a worker until the test ends.
func startWorker(t *testing.T, q queue.Queue, mailer signup.Mailer) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	worker := engine.Worker{
		Backend: q,
		Handler: signup.Handlers(mailer),
		Logger:  slog.New(slog.NewTextHandler(t.Output(), nil)), // shown if the test fails
	}
	go func() { done <- worker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
