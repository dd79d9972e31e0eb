// Package signup is a small service that enqueues jobs, and the worker's side of
// them. Its tests show the ways to test such a service, a file for each: see
// docs/testing.md.
package signup

import (
	"context"
	"errors"
	"time"

	"github.com/errandhq/errand/queue"
)

// The kinds of jobs: declared once, used by those who enqueue and those who handle.
var (
	WelcomeEmail = queue.Kind[Mail]{Name: "email.welcome", MaxAttempts: 10} // over an hour of trying
	TourEmail    = queue.NewKind[Mail]("email.tour")
)

// Mail is the payload of both.
type Mail struct {
	UserID int64
	To     string
}

// tourAfter is how long after signing up people get the tour.
const tourAfter = 24 * time.Hour

// ErrTaken says that somebody has signed up with that address before.
var ErrTaken = errors.New("signup: the address is taken")

// Users is where people are kept: [Postgres], or a fake in tests.
type Users interface {
	Begin(ctx context.Context) (Tx, error)
	// Add adds a user in tx. The error may be ErrTaken.
	Add(ctx context.Context, tx Tx, email string) (id int64, err error)
}

// Tx is what the service needs of a transaction; *sql.Tx is one.
type Tx interface {
	queue.DB
	Commit() error
	Rollback() error
}

// Service signs people up.
type Service struct {
	Users Users
	Jobs  queue.Enqueuer
}

// SignUp adds a user and enqueues the letters to them: all of it, or nothing.
func (s *Service) SignUp(ctx context.Context, email string) (id int64, err error) {
	tx, err := s.Users.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // returns an error after Commit, as expected
	id, err = s.Users.Add(ctx, tx, email)
	if err != nil {
		return 0, err
	}
	mail := Mail{UserID: id, To: email}
	tour := TourEmail.New(mail)
	tour.Delay = tourAfter
	if err := s.Jobs.Enqueue(ctx, tx, WelcomeEmail.New(mail), tour); err != nil {
		return 0, err
	}
	return id, tx.Commit()
}
