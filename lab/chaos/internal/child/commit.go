package child

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/queue"
)

// Commit is what an enqueuer does that makes one call after the other, until SIGTERM, and notes
// each failure. It repeats a failed call until it is acknowledged if its jobs have keys, and
// otherwise never.
type Commit struct {
	Driver string        `json:"driver"` // of database/sql
	First  int           `json:"first"`  // the number of the first job
	Keyed  bool          `json:"keyed"`
	Tx     bool          `json:"tx"`    // in a transaction of the caller
	Pause  time.Duration `json:"pause"` // between two calls
}

// CallOf returns the numbers of the jobs of a call: one job, or two.
func (c Commit) CallOf(call int) []int {
	first := c.First + 2*call
	if call%2 == 0 {
		return []int{first}
	}
	return []int{first, first + 1}
}

// The notes of failed calls begin with these.
const (
	Unknown      = "unknown: " // errors.Is(err, queue.ErrUnknown)
	CommitFailed = "commit: "  // the caller's own commit failed
	Known        = "known: "   // any other error
)

// errCommit marks an error of the caller's own commit.
var errCommit = errors.New("commit")

func commit(ctx context.Context, s *self) error {
	db, err := sql.Open(s.Commit.Driver, s.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		return err
	}
	for call := 0; ctx.Err() == nil; call++ {
		numbers := s.Commit.CallOf(call)
		for try, done := 1, false; !done; try++ {
			err := s.commitOnce(db, q, numbers)
			if err == nil {
				exitOnError(s.ledger.Acked(numbers...))
			} else {
				s.note(peer.Run{Number: numbers[0], Attempt: try}, class(err)+err.Error())
			}
			done = err == nil || !s.Commit.Keyed
			time.Sleep(s.Commit.Pause)
		}
	}
	return nil
}

// commitOnce makes one call. SIGTERM does not stop it, because it must be known what it wrote.
func (s *self) commitOnce(db *sql.DB, q *postgres.Backend, numbers []int) error {
	ctx, cancel := context.WithTimeout(context.Background(), enqueueTimeout)
	defer cancel()
	jobs := make([]*queue.Job, len(numbers))
	for i, n := range numbers {
		jobs[i] = peer.PlainJob(n)
		if s.Commit.Keyed {
			jobs[i].Key = fmt.Sprint("key ", n)
		}
	}
	if !s.Commit.Tx {
		return q.Enqueue(ctx, nil, jobs...)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := q.Enqueue(ctx, tx, jobs...); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", errCommit, err)
	}
	return nil
}

// class returns how the note of an error begins.
func class(err error) string {
	switch {
	case errors.Is(err, queue.ErrUnknown):
		return Unknown
	case errors.Is(err, errCommit):
		return CommitFailed
	}
	return Known
}
