package ledger

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema.sql
var schema string

// Ledger reads the record. It is safe for concurrent use.
type Ledger struct{ pool *pgxpool.Pool }

// Book is the content of a ledger.
type Book struct {
	Acked   map[int]time.Time // when each job's first acknowledgement was recorded
	Starts  []Entry           // ordered by time
	Effects []Entry           // ordered by time
	Notes   []Entry           // ordered by time
}

// Entry is an event in a run of a job.
type Entry struct {
	Number  int
	Attempt int
	Worker  string
	At      time.Time
	Text    string // of a note
}

// Create makes a ledger in an empty database.
func Create(ctx context.Context, dsn string) (*Ledger, error) {
	l, err := Join(ctx, dsn)
	if err != nil {
		return nil, err
	}
	if _, err := l.pool.Exec(ctx, schema); err != nil {
		l.Close()
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return l, nil
}

// Join connects to an existing ledger.
func Join(ctx context.Context, dsn string) (*Ledger, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return &Ledger{pool}, nil
}

// Close closes the connections to the ledger. Its content stays.
func (l *Ledger) Close() { l.pool.Close() }

// Read reads the whole ledger.
func (l *Ledger) Read(ctx context.Context) (b Book, err error) {
	b.Acked = make(map[int]time.Time)
	rows, _ := l.pool.Query(ctx, `SELECT number, min(at) FROM acked GROUP BY number`)
	var number int
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&number, &at}, func() error {
		b.Acked[number] = at
		return nil
	})
	if err != nil {
		return b, fmt.Errorf("ledger: %w", err)
	}
	for into, query := range map[*[]Entry]string{
		&b.Starts:  `SELECT number, attempt, worker, at, '' FROM starts ORDER BY at, attempt`,
		&b.Effects: `SELECT number, attempt, worker, at, '' FROM effects ORDER BY at, attempt`,
		&b.Notes:   `SELECT number, attempt, worker, at, text FROM notes ORDER BY at, attempt`,
	} {
		if *into, err = l.entries(ctx, query); err != nil {
			return b, err
		}
	}
	return b, nil
}

// StartsSince reads the starts at that time or later.
func (l *Ledger) StartsSince(ctx context.Context, at time.Time) ([]Entry, error) {
	return l.entries(ctx, `SELECT number, attempt, worker, at, '' FROM starts WHERE at >= $1 ORDER BY at, attempt`, at)
}

func (l *Ledger) entries(ctx context.Context, query string, args ...any) ([]Entry, error) {
	rows, _ := l.pool.Query(ctx, query, args...) // CollectRows returns the error, too
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Entry])
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return entries, nil
}

// Progress returns about how many jobs have been acknowledged, and how many effects there are. It
// is cheap. It also counts writes that failed.
func (l *Ledger) Progress(ctx context.Context) (acked, effects int, err error) {
	err = l.pool.QueryRow(ctx, progressSQL).Scan(&acked, &effects)
	return acked, effects, err
}

const progressSQL = `SELECT a.last_value - 1 + a.is_called::integer, e.last_value - 1 + e.is_called::integer FROM acked_id_seq AS a, effects_id_seq AS e`
