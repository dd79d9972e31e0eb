package child

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/payload"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
	"github.com/errandhq/errand/queue"
)

// Fuzz is what a process does that enqueues strange payloads, or reads them.
type Fuzz struct {
	Driver string `json:"driver"` // of database/sql
	Jobs   int    `json:"jobs"`
	First  int    `json:"first"` // the number of the first; the payloads go by the numbers from it
	Large  bool   `json:"large"` // the payloads are the large ones, and MaxPayload is raised
}

// The notes of calls that were refused: Refusal is followed by the field that the error names,
// Strange by an error of any other kind.
const (
	Refusal = "refused: "
	Strange = "strange: "
	Back    = "back: " // and the digest of the payload's value
)

const payloadKind = "chaos.payload"

// Payload is the payload of a number.
func (f Fuzz) Payload(runSeed uint64, number int) payload.Payload {
	if f.Large {
		return payload.Large(number - f.First)
	}
	return payload.Of(number-f.First, seed.Source(runSeed, "payload", number))
}

func (f Fuzz) open(dsn string, connections int) (*sql.DB, *postgres.Backend, error) {
	db, err := sql.Open(f.Driver, dsn)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(connections)
	var o postgres.Options
	if f.Large {
		o.MaxPayload = payload.RaisedLimit
	}
	q, err := postgres.New(db, o)
	return db, q, err
}

// fuzz enqueues payloads, some of them together. Where a call is refused, each of its jobs is
// enqueued again alone: nothing of the call may have been written.
func fuzz(ctx context.Context, s *self) error {
	db, q, err := s.Fuzz.open(s.DSN, 2)
	if err != nil {
		return err
	}
	defer db.Close()
	draw := seed.Source(s.Seed, "fuzz", s.Name)
	for n := s.Fuzz.First; n < s.Fuzz.First+s.Fuzz.Jobs && ctx.Err() == nil; {
		size := 1
		if draw.IntN(2) == 0 && !s.Fuzz.Large {
			size = min(2+draw.IntN(5), s.Fuzz.First+s.Fuzz.Jobs-n)
		}
		keyed, inTx := draw.IntN(4) == 0, draw.IntN(4) == 0 && !s.Fuzz.Large // what the server itself refuses ends a transaction
		numbers := make([]int, size)
		for i := range numbers {
			numbers[i] = n + i
		}
		n += size
		if s.fuzzOnce(ctx, db, q, keyed, inTx, numbers...) || size == 1 {
			continue
		}
		for _, number := range numbers {
			s.fuzzOnce(ctx, db, q, keyed, inTx, number)
		}
	}
	return nil
}

// fuzzOnce makes one call, and says whether it was acknowledged. What else came of it is a note.
func (s *self) fuzzOnce(ctx context.Context, db *sql.DB, q *postgres.Backend, keyed, inTx bool, numbers ...int) bool {
	jobs := make([]*queue.Job, len(numbers))
	for i, n := range numbers {
		jobs[i] = &queue.Job{Kind: payloadKind, Payload: s.Fuzz.Payload(s.Seed, n).Text, Headers: map[string]string{"number": strconv.Itoa(n)}}
		if keyed {
			jobs[i].Key = strconv.Itoa(n)
		}
	}
	var err error
	if inTx {
		err = enqueueInTx(ctx, db, q, jobs)
	} else {
		err = q.Enqueue(ctx, nil, jobs...)
	}
	if err == nil {
		exitOnError(s.ledger.Acked(numbers...))
		return true
	}
	text := Strange + strings.ToValidUTF8(fmt.Sprintf("%.300s", err.Error()), "?")
	if bad, ok := errors.AsType[*queue.InvalidError](err); ok {
		text = Refusal + bad.Field
	}
	exitOnError(s.ledger.Note(numbers[0], len(numbers), text))
	return false
}

// enqueueInTx goes on with the transaction, whatever comes of the call: what is refused must not
// break it.
func enqueueInTx(ctx context.Context, db *sql.DB, q *postgres.Backend, jobs []*queue.Job) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	refused := q.Enqueue(ctx, tx, jobs...)
	if _, err := tx.ExecContext(ctx, `SELECT 1`); err != nil {
		return fmt.Errorf("in the transaction, after %s: %w", fmt.Sprint(refused), err) // not to be taken for the refusal
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit, after %s: %w", fmt.Sprint(refused), err)
	}
	return refused
}

// read is a worker that records what the payloads have become.
func read(ctx context.Context, s *self) error {
	db, q, err := s.Fuzz.open(s.DSN, 4)
	if err != nil {
		return err
	}
	defer db.Close()
	mux := queue.NewMux()
	mux.Handle(payloadKind, queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
		number, err := strconv.Atoi(job.Headers["number"])
		if err != nil {
			return err
		}
		digest, ok := payload.Value(job.Payload)
		if !ok {
			digest = "no value"
		}
		exitOnError(s.ledger.Started(number, job.Attempt))
		exitOnError(s.ledger.Note(number, job.Attempt, Back+digest))
		exitOnError(s.ledger.Effect(number, job.Attempt))
		return nil
	}))
	return queue.Worker{Backend: q, Handler: mux, Concurrency: s.Work.Concurrency, Name: s.Name, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}.Run(ctx)
}
