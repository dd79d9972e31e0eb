package signup_test

import (
	"testing"

	signup "github.com/errandhq/errand/examples/testing"
	"github.com/errandhq/errand/queue/queuetest"
)

// Inline: jobs run at once, so a test looks at what comes of a call as if there
// were no queue. In a transaction they run when it commits.
func TestSignUpSendsWelcome(t *testing.T) {
	mailer := &fakeMailer{}
	q := queuetest.New(queuetest.Options{Inline: signup.Handlers(mailer)})

	signUp(t, newService(q), "ada@example.com")

	mailer.wantSent(t, "Welcome to ada@example.com") // and not yet the tour, which is a day off
}

// What fails inline does not fail the call that has enqueued it, as in production.
func TestSignUpWhileMailIsDown(t *testing.T) {
	mailer := &fakeMailer{down: true}
	q := queuetest.New(queuetest.Options{Inline: signup.Handlers(mailer)})

	id := signUp(t, newService(q), "ada@example.com")

	job := queuetest.WantJob(t, q, signup.WelcomeEmail, signup.Mail{UserID: id, To: "ada@example.com"})
	if job.LastError != "mail server is down" {
		t.Errorf("last error of the job: got %q, want mail server is down", job.LastError)
	}
}
