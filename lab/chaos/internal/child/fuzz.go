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
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/lab/chaos/internal/payload"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
	"github.com/errandhq/errand/queue"
)

// Fuzz is what a process does that enqueues fuzzed payloads, or reads them.
type Fuzz struct {
	Driver string `json:"driver"` // of database/sql
	Jobs   int    `json:"jobs"`
	First  int    `json:"first"` // the number of the first job; payloads are drawn by the numbers
	Large  bool   `json:"large"` // use the large payloads, and a larger MaxPayload
}

// The notes of refused calls, and of payloads that came back. The field that the error names
// follows Refusal. Any other error follows Strange.
const (
	Refusal = "refused: "
	Strange = "strange: "
	Back    = "back: " // the digest of the payload's value follows
)

const payloadKind = "chaos.payload"

// Payload returns the payload of a number.
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

// fuzz enqueues payloads, some of them together. After a refused call it enqueues each of the
// call's jobs again, alone, because the call must have written nothing.
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
		keyed, inTx := draw.IntN(4) == 0, draw.IntN(4) == 0 && !s.Fuzz.Large // an error of the server itself would end a transaction
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

// fuzzOnce makes one call and reports whether it was acknowledged. It notes an error.
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

// enqueueInTx uses the transaction after the call, whether the call failed or not: a refusal must
// not break the transaction.
func enqueueInTx(ctx context.Context, db *sql.DB, q *postgres.Backend, jobs []*queue.Job) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	refused := q.Enqueue(ctx, tx, jobs...)
	if _, err := tx.ExecContext(ctx, `SELECT 1`); err != nil {
		return fmt.Errorf("in the transaction, after %s: %w", fmt.Sprint(refused), err) // not %w for the refusal: this is a different error
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit, after %s: %w", fmt.Sprint(refused), err)
	}
	return refused
}

// read is a worker that records the payloads that it gets.
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
	return engine.Worker{Backend: q, Handler: mux, Concurrency: s.Work.Concurrency, Name: s.Name, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}.Run(ctx)
}
