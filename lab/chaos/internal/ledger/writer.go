// Package ledger is the record that the audit relies on. It is in its own database, on a server
// that no fault touches. The processes write to it on a connection of their own, without the system
// under test.
package ledger

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// Writer writes what one process saw. A method returns when its row is written. Rows of several
// goroutines are written together. It is safe for concurrent use.
type Writer struct {
	conn   *pgx.Conn
	worker string
	lines  chan line
	done   chan struct{}
}

type table int

const (
	acked table = iota
	starts
	effects
	notes
	tables
)

// line is a row. In the table acked it is a row for each of the numbers.
type line struct {
	table   table
	numbers []int
	attempt int
	text    string
	written chan error
}

// writeTimeout is far more than a write needs.
const writeTimeout = time.Minute

// Open connects to the ledger. worker is the name in the rows.
func Open(ctx context.Context, dsn, worker string) (*Writer, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	w := &Writer{conn: conn, worker: worker, lines: make(chan line), done: make(chan struct{})}
	go w.run()
	return w, nil
}

// Acked records that the system has acknowledged these jobs.
func (w *Writer) Acked(numbers ...int) error {
	return w.write(line{table: acked, numbers: numbers})
}

// Started records that the handler of a job begins.
func (w *Writer) Started(number, attempt int) error {
	return w.write(line{table: starts, numbers: []int{number}, attempt: attempt})
}

// Effect records that the handler of a job has done its work.
func (w *Writer) Effect(number, attempt int) error {
	return w.write(line{table: effects, numbers: []int{number}, attempt: attempt})
}

// Note records any other event.
func (w *Writer) Note(number, attempt int, text string) error {
	return w.write(line{table: notes, numbers: []int{number}, attempt: attempt, text: text})
}

func (w *Writer) write(l line) error {
	l.written = make(chan error, 1)
	w.lines <- l
	return <-l.written
}

// Close waits for the current write. No method may be called after it.
func (w *Writer) Close() error {
	close(w.lines)
	<-w.done
	return w.conn.Close(context.Background())
}

// run writes the collected lines, again and again.
func (w *Writer) run() {
	defer close(w.done)
	for first := range w.lines {
		together := w.collect(first)
		err := w.send(together)
		for _, l := range together {
			l.written <- err
		}
	}
}

// collect takes the other lines that wait to be written.
func (w *Writer) collect(first line) []line {
	const most = 1000
	together := []line{first}
	for len(together) < most {
		select {
		case l, ok := <-w.lines:
			if !ok {
				return together
			}
			together = append(together, l)
		default:
			return together
		}
	}
	return together
}

// inserts write the rows of each table. $1 are the numbers. If the table has them, $2 are the
// attempts, $3 the worker, and $4 the process or the texts.
var inserts = [tables]string{
	acked:   `INSERT INTO acked (number) SELECT unnest($1::bigint[])`,
	starts:  `INSERT INTO starts (number, attempt, worker, pid) SELECT number, attempt, $3, $4 FROM unnest($1::bigint[], $2::integer[]) AS t (number, attempt)`,
	effects: `INSERT INTO effects (number, attempt, worker) SELECT number, attempt, $3 FROM unnest($1::bigint[], $2::integer[]) AS t (number, attempt)`,
	notes:   `INSERT INTO notes (number, attempt, worker, text) SELECT number, attempt, $3, text FROM unnest($1::bigint[], $2::integer[], $4::text[]) AS t (number, attempt, text)`,
}

// send writes all lines in one round trip.
func (w *Writer) send(lines []line) error {
	var numbers, attempts [tables][]int
	var texts []string
	for _, l := range lines {
		numbers[l.table] = append(numbers[l.table], l.numbers...)
		attempts[l.table] = append(attempts[l.table], l.attempt)
		if l.table == notes {
			texts = append(texts, l.text)
		}
	}
	batch := &pgx.Batch{}
	for t, of := range numbers {
		if len(of) == 0 {
			continue
		}
		args := []any{of}
		if table(t) != acked {
			args = append(args, attempts[t], w.worker)
		}
		switch table(t) {
		case starts:
			args = append(args, os.Getpid())
		case notes:
			args = append(args, texts)
		}
		batch.Queue(inserts[t], args...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if err := w.conn.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}
