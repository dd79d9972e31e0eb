package signup

import (
	"context"

	"github.com/errandhq/errand/queue"
)

// Mailer sends letters.
type Mailer interface {
	Send(ctx context.Context, to, subject string) error
}

// Handlers handles the kinds of this package. A letter that the mailer does not
// take is tried again.
func Handlers(m Mailer) *queue.Mux {
	mux := queue.NewMux()
	send := func(subject string) func(context.Context, *queue.Job, Mail) error {
		return func(ctx context.Context, _ *queue.Job, mail Mail) error { return m.Send(ctx, mail.To, subject) }
	}
	WelcomeEmail.Handle(mux, send("Welcome"))
	TourEmail.Handle(mux, send("A tour"))
	return mux
}
