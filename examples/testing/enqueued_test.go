package signup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	signup "github.com/errandhq/errand/examples/testing"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Enqueued: nothing runs; the test looks at what was asked for, with what
// arguments and when. If that is wrong, the message shows what was enqueued instead.
func TestSignUpEnqueuesLetters(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	id := signUp(t, newService(q), "ada@example.com")

	mail := signup.Mail{UserID: id, To: "ada@example.com"}
	queuetest.WantJob(t, q, signup.WelcomeEmail, mail, queuetest.Times(1))
	queuetest.WantJob(t, q, signup.TourEmail, mail, queuetest.DueIn(24*time.Hour))
}

// A job belongs in the transaction of the write that it is for. A job that was
// enqueued beside it, by mistake, would be found by the first assertion here and
// not by the second.
func TestSignUpEnqueuesInItsTransaction(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	users := &fakeUsers{queue: q}
	id := signUp(t, &signup.Service{Users: users, Jobs: q}, "ada@example.com")

	mail := signup.Mail{UserID: id, To: "ada@example.com"}
	queuetest.WantJob(t, q, signup.WelcomeEmail, mail)
	queuetest.WantJob(t, q, signup.WelcomeEmail, mail, queuetest.Through(users.tx))
}

// What is rolled back was never enqueued. Here something fails once the jobs are
// written; without the transaction they would stay.
func TestFailedSignUpEnqueuesNothing(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	failure := errors.New("connection reset")
	service := newService(q)
	service.Jobs = queue.EnqueuerFunc(func(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
		return errors.Join(q.Enqueue(ctx, db, jobs...), failure)
	})
	if _, err := service.SignUp(t.Context(), "ada@example.com"); !errors.Is(err, failure) {
		t.Fatalf("SignUp: got error %v, want %v", err, failure)
	}
	queuetest.WantNoJob(t, q, signup.WelcomeEmail)
	queuetest.WantNoJob(t, q, signup.TourEmail)
}
