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

// Commit is what an enqueuer of errand's does that is told of each call's end: it makes one
// call after the other, until SIGTERM. A call that failed is made again until it has been
// acknowledged if its jobs have keys, and never if not; each failure is a note.
type Commit struct {
	Driver string        `json:"driver"` // of database/sql
	First  int           `json:"first"`  // the number of the first job
	Keyed  bool          `json:"keyed"`
	Tx     bool          `json:"tx"`    // in a transaction of the caller's own
	Pause  time.Duration `json:"pause"` // between two calls
}

// CallOf is the jobs of a call of Commit's, by number of call: one, or two.
func (c Commit) CallOf(call int) []int {
	first := c.First + 2*call
	if call%2 == 0 {
		return []int{first}
	}
	return []int{first, first + 1}
}

// What the notes of calls that failed begin with.
const (
	Unknown      = "unknown: " // errors.Is(err, queue.ErrUnknown)
	CommitFailed = "commit: "  // the caller's own commit has failed
	Known        = "known: "   // anything else
)

// errCommit is of the caller's own commit.
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

// commitOnce makes one call. It outlasts SIGTERM: what it wrote must be known.
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
	defer func() { _ = tx.Rollback() }() // nothing once it is committed
	if err := q.Enqueue(ctx, tx, jobs...); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", errCommit, err)
	}
	return nil
}

// class is what the note of an error begins with.
func class(err error) string {
	switch {
	case errors.Is(err, queue.ErrUnknown):
		return Unknown
	case errors.Is(err, errCommit):
		return CommitFailed
	}
	return Known
}
