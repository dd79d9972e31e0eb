package ops

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/queue/driver"
)

const postgresDialect = "postgres"

//go:embed sql
var sqlFiles embed.FS

// server is a PostgreSQL server as Doctor and Explain ask it. It is for one call of them.
type server struct {
	statements
	tables driver.Tables
	name   string // such as "PostgreSQL 18.1"
	// seesAll is whether the role may see what sessions of other roles do.
	seesAll  bool
	role     string
	identity identity
	// known are answers that several checks need. What a check notes as its SQL has their statements,
	// too.
	known struct {
		settings map[string]string
		table    *tableStats
	}
}

// load returns the text of sql/postgres/name.sql, with the backend's schema in place.
func (s *server) load(name string) string {
	text, err := sqlFiles.ReadFile("sql/postgres/" + name + ".sql")
	if err != nil {
		panic(err) // the file is part of the program
	}
	schema := s.tables.Schema
	return strings.NewReplacer("'errand'", "'"+schema+"'", "errand.", `"`+schema+`".`).Replace(string(text))
}

// rows runs sql/postgres/name.sql in a read-only transaction of its own, and calls scan for each
// row. The server ends the statement after checkTimeout, also if this process is killed.
func (s *server) rows(ctx context.Context, name string, scan func(*sql.Rows) error, args ...any) error {
	return s.query(ctx, s.load(name), scan, args...)
}

// query does the same with a statement.
func (s *server) query(ctx context.Context, text string, scan func(*sql.Rows) error, args ...any) error {
	return s.queryAfter(ctx, "", text, scan, args...)
}

// queryAfter does the same, and first runs a statement that changes settings, "" for none.
func (s *server) queryAfter(ctx context.Context, first, text string, scan func(*sql.Rows) error, args ...any) error {
	tx, err := s.tables.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, confine); err != nil {
		return err
	}
	if first != "" {
		s.note(first)
		if _, err := tx.ExecContext(ctx, first); err != nil {
			return err
		}
	}
	s.note(text, args...)
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// confine bounds each statement of the transaction. Statements wait for no lock for long: an ALTER
// TABLE that waits would otherwise keep all claims waiting behind them. The server leaves a schema
// of the search_path out of definitions, so that of the role does not count.
var confine = fmt.Sprintf("SELECT set_config('statement_timeout', '%d', true), set_config('lock_timeout', '500', true), "+
	"set_config('search_path', 'pg_catalog', true)", checkTimeout.Milliseconds())

// row runs sql/postgres/name.sql, which returns one row.
func (s *server) row(ctx context.Context, name string, targets ...any) error {
	found := false
	err := s.rows(ctx, name, func(r *sql.Rows) error {
		found = true
		return r.Scan(targets...)
	})
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// The codes of errors that mean more than that the statement has failed.
const (
	insufficientPrivilege = "42501"
	undefinedTable        = "42P01"
	undefinedColumn       = "42703"
	undefinedFunction     = "42883"
	invalidSchema         = "3F000"
	queryCanceled         = "57014"
	lockNotAvailable      = "55P03"
	notSupported          = "0A000"
	internalError         = "XX000"
)

// sqlState returns the SQLSTATE code of err, which the errors of pgx and lib/pq tell, or "".
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// failed returns the finding of a check that has returned an error.
func (d *doctor) failed(ctx context.Context, err error) finding {
	switch code := sqlState(err); {
	case errors.Is(err, errNotTold):
		return finding{level: Skipped, value: err.Error()}
	case d.hasLocks && (code == lockNotAvailable || code == queryCanceled || ctx.Err() != nil):
		return finding{Skipped, "a table that the check reads is locked", seeWaits}
	case code == insufficientPrivilege:
		return finding{Skipped, "a right is missing: " + err.Error(), "run docs/roles.sql, or ask as a role that has this right"}
	case errors.Is(err, fs.ErrPermission):
		return finding{Skipped, "a right is missing: " + err.Error(), "ask as a user that has this right"}
	case code == notSupported && d.Server != nil && d.Server.identity.isStandby:
		return finding{level: Skipped, value: "a standby does not have what the check reads"}
	case code == undefinedTable, code == undefinedColumn, code == undefinedFunction, code == invalidSchema:
		return finding{Skipped, "something in the schema is missing: " + err.Error(), "see the check schema"}
	case code == lockNotAvailable:
		return finding{Warn, "a transaction has locked a table that the check reads", seeWaits}
	case code == queryCanceled, errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
		return finding{Skipped, fmt.Sprintf("no answer within %v", checkTimeout),
			"the server is busy, or this program's pool has no free connection: run it again" + d.orByHand()}
	}
	if u := reach.Check(err); u != nil {
		return finding{Fail, u.Error(), u.Advice}
	}
	return finding{Warn, "the check has failed: " + err.Error(), "mend what the error names" + d.orByHand()}
}

// orByHand returns what else to do about a check that has failed, if it has SQL.
func (d *doctor) orByHand() string {
	if d.Server == nil && d.File == nil {
		return ""
	}
	return ", or run the SQL of the check by hand"
}

const seeWaits = "see the check waits, which names the session that has locked the table"

// needsStats returns the finding of a check that has found nothing, but may not see the sessions of
// other roles.
func needsStats(s *server, what string) finding {
	return finding{Skipped, what + ", but this role does not see what sessions of other roles do", "GRANT pg_read_all_stats TO " + s.role}
}

// seconds makes a duration of what a statement returns as seconds.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// short writes a duration for people: longer ones are rounded to minutes or seconds.
func short(d time.Duration) string {
	switch {
	case d >= 30*24*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= 10*time.Minute:
		d = d.Round(time.Minute)
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Millisecond)
	}
	return plain.Duration(d)
}
