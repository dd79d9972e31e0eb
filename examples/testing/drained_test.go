package signup_test

import (
	"testing"

	signup "github.com/errandhq/errand/examples/testing"
	"github.com/errandhq/errand/queue/queuetest"
)

// Drained: the test says when jobs run. It is the way to look at what happens in
// between, and to run with handlers that the enqueuing side does not know of.
func TestWelcomeIsSentAfterSigningUp(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	service := newService(q)
	signUp(t, service, "ada@example.com")
	signUp(t, service, "bob@example.com")

	mailer := &fakeMailer{}
	ran, err := q.Drain(t.Context(), signup.Handlers(mailer))
	if err != nil || ran != 2 {
		t.Fatalf("Drain: got %d runs, error %v; want 2", ran, err)
	}
	mailer.wantSent(t, "Welcome to ada@example.com", "Welcome to bob@example.com")
}
