package peer

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/errandhq/errand/lab/internal/peer"
)

// floorSQLite is hand-written SQL on errand's own table in a SQLite file: one connection, prepared
// statements, a transaction to claim a thousand jobs, and another to settle them.
type floorSQLite struct {
	dsn      string
	db       *sql.DB
	progress progressReader

	mu       sync.Mutex
	prepared map[string]*sql.Stmt
}

var (
	//go:embed floor_sqlite_due.sql
	floorSQLiteDue string
	//go:embed floor_sqlite_take.sql
	floorSQLiteTake string
	//go:embed floor_sqlite_settle.sql
	floorSQLiteSettle string
)

func openFloorSQLite(_ context.Context, c Config) (Peer, error) {
	db, err := peer.OpenDB("sqlite", c.DSN, 1)
	if err != nil {
		return nil, err
	}
	return &floorSQLite{dsn: c.DSN, db: db, progress: readSQLite(c.DSN), prepared: make(map[string]*sql.Stmt)}, nil
}

func (f *floorSQLite) Install(ctx context.Context) error {
	p, err := openErrandSQLite(ctx, Config{DSN: f.dsn})
	if err != nil {
		return err
	}
	return errors.Join(p.Install(ctx), p.Close())
}

// statements returns the prepared statements of texts. It prepares each text once.
func (f *floorSQLite) statements(ctx context.Context, texts ...string) ([]*sql.Stmt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*sql.Stmt
	for _, text := range texts {
		s, ok := f.prepared[text]
		if !ok {
			var err error
			// The driver forgets a prepared statement if anything follows it, even a line break.
			if s, err = f.db.PrepareContext(ctx, strings.TrimRight(text, ";\n")); err != nil {
				return nil, err
			}
			f.prepared[text] = s
		}
		list = append(list, s)
	}
	return list, nil
}

// inTx runs f with statements in a transaction. The DSN makes it IMMEDIATE, so it has the write
// lock from its beginning.
func (f *floorSQLite) inTx(ctx context.Context, run func(...*sql.Stmt) error, texts ...string) error {
	list, err := f.statements(ctx, texts...)
	if err != nil {
		return err
	}
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for i, s := range list {
		list[i] = tx.StmtContext(ctx, s)
	}
	if err := run(list...); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// insertRows is how many rows one INSERT of many has. With ten or a thousand it is slower.
const insertRows = 100

// insertJobs returns an INSERT of this many rows of kind and payload.
func insertJobs(rows int) string {
	return "INSERT INTO errand_jobs (kind, payload) VALUES (?, ?)" + strings.Repeat(", (?, ?)", rows-1)
}

func (f *floorSQLite) Enqueue(ctx context.Context, first, n int) error {
	return f.inTx(ctx, func(s ...*sql.Stmt) error {
		many, one := s[0], s[1]
		values := make([]any, 0, 2*insertRows)
		for i := range n {
			values = append(values, kind, payload(first+i))
			statement := many
			if i >= n-n%insertRows {
				statement = one
			} else if len(values) < cap(values) {
				continue
			}
			if _, err := statement.ExecContext(ctx, values...); err != nil {
				return err
			}
			values = values[:0]
		}
		return nil
	}, insertJobs(insertRows), insertJobs(1))
}

// EnqueueOne needs no BEGIN: a single statement is a transaction.
func (f *floorSQLite) EnqueueOne(ctx context.Context, number int) error {
	s, err := f.statements(ctx, insertJobs(1))
	if err != nil {
		return err
	}
	_, err = s[0].ExecContext(ctx, kind, payload(number))
	return err
}

// Work claims and settles in turns, because SQLite has one writer.
func (f *floorSQLite) Work(ctx context.Context, handle func(int)) error {
	running := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		ids, numbers, err := f.claim(running)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		for _, n := range numbers {
			handle(n)
		}
		if err := f.settle(running, ids); err != nil {
			return err
		}
	}
	return nil
}

func (f *floorSQLite) claim(ctx context.Context) (ids []int64, numbers []int, err error) {
	err = f.inTx(ctx, func(s ...*sql.Stmt) (err error) {
		due, take := s[0], s[1]
		now := time.Now()
		if ids, numbers, err = readDue(due.QueryContext(ctx, floorBatch, now.UnixMicro())); err != nil || len(ids) == 0 {
			return err
		}
		text, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		_, err = take.ExecContext(ctx, string(text), "floor", now.UnixMicro(), now.Add(30*time.Second).UnixMicro())
		return err
	}, floorSQLiteDue, floorSQLiteTake)
	return ids, numbers, err
}

func readDue(rows *sql.Rows, err error) (ids []int64, numbers []int, _ error) {
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	ids, numbers = make([]int64, 0, floorBatch), make([]int, 0, floorBatch)
	var id, attempts int64
	var kind, payload sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&id, &kind, &payload, &attempts); err != nil {
			return nil, nil, err
		}
		ids = append(ids, id)
		numbers = append(numbers, numberIn(payload))
	}
	return ids, numbers, rows.Err()
}

func (f *floorSQLite) settle(ctx context.Context, ids []int64) error {
	text, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return f.inTx(ctx, func(s ...*sql.Stmt) error {
		_, err := s[0].ExecContext(ctx, string(text), "floor", time.Now().UnixMicro())
		return err
	}, floorSQLiteSettle)
}

func (f *floorSQLite) Unsettled(ctx context.Context) (bool, error) {
	return f.progress.queryBool(ctx, errandInSQLite.unsettled)
}

func (f *floorSQLite) Census(ctx context.Context) (Census, error) {
	return f.progress.census(ctx, errandInSQLite.census)
}

func (f *floorSQLite) Close() error { return errors.Join(f.progress.close(), f.db.Close()) }
