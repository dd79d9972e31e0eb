package signup_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	signup "github.com/errandhq/errand/examples/testing"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Postgres: the same service on a real database, which each test has to itself, with
// the same assertions. Whether a job was in the right transaction shows in what
// is left when that rolls back.
func TestSignUpInPostgres(t *testing.T) {
	db, q := newDatabase(t)
	service := &signup.Service{Users: signup.Postgres{DB: db}, Jobs: q}

	id := signUp(t, service, "ada@example.com")
	mail := signup.Mail{UserID: id, To: "ada@example.com"}
	queuetest.WantJob(t, q, signup.WelcomeEmail, mail)
	queuetest.WantJob(t, q, signup.TourEmail, mail, queuetest.DueIn(24*time.Hour))

	if _, err := service.SignUp(t.Context(), "ada@example.com"); !errors.Is(err, signup.ErrTaken) {
		t.Fatalf("SignUp with an address that is taken: got error %v, want ErrTaken", err)
	}
	queuetest.WantJob(t, q, signup.WelcomeEmail, mail, queuetest.Times(1))
}

// A queue without its table stands for whatever fails after the user was added.
func TestNoUserWithoutLetters(t *testing.T) {
	db, q := newDatabase(t)
	elsewhere, err := postgres.New(db, postgres.Options{Schema: "nowhere"})
	if err != nil {
		t.Fatalf("postgres.New: %v", err)
	}
	service := &signup.Service{Users: signup.Postgres{DB: db}, Jobs: elsewhere}
	if _, err := service.SignUp(t.Context(), "ada@example.com"); err == nil {
		t.Fatalf("SignUp without a queue: got no error")
	}
	var users int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM users").Scan(&users); err != nil || users != 0 {
		t.Errorf("users: got %d, error %v; want none", users, err)
	}
	queuetest.WantNoJob(t, q, signup.WelcomeEmail)
}

// newDatabase returns a database with all tables, and the queue in it.
func newDatabase(t *testing.T) (*sql.DB, queue.Queue) {
	t.Helper()
	db := postgrestest.Open(t)
	if _, err := db.ExecContext(t.Context(), signup.Schema); err != nil {
		t.Fatalf("create tables: %v", err)
	}
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatalf("postgres.New: %v", err)
	}
	return db, q
}
