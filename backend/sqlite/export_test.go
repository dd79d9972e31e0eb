package sqlite

import (
	"context"
	"database/sql"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/sqliteerr"
	"github.com/errandhq/errand/queue"
)

// Statement is the text of a file of the sql folder, for tests that look at plans, and benchmarks
// that run it by hand.
func Statement(name string) string {
	return onlyStatement(sqlkit.ReadFile(sqlFiles, "sql/"+name+".sql"))
}

// Without is a statement without what it returns.
var Without = withoutReturning

// List builds the JSON array of texts that statements get.
var List = stringList

// IsBusy says whether a driver's error says that another has the lock, and IsStale whether that is
// for good.
var IsBusy, IsStale = sqliteerr.IsBusy, sqliteerr.IsStale

// Parts cuts a batch that is too long for one statement.
var Parts = parts

// Seen is what Listen looks at while a worker sleeps.
func (b *Backend) Seen(ctx context.Context) (seen int64, err error) {
	err = b.read(ctx, "listen", func(db queue.DB) error {
		return queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&seen) }, b.sql["last_id"])
	})
	return seen, err
}

// ForgetTick makes b look into the file for the next tick of a schedule.
func ForgetTick(b *Backend) { b.ticks.Expire() }

// LeftSchedules returns the schedules that b leaves alone now.
func LeftSchedules(b *Backend) []string { return b.ticks.Left() }

// SeeClock makes b take at, in microseconds since 1970, for what this machine's clock shows.
func SeeClock(b *Backend, at int64) { b.clock.Note(b.clock.Begin(), at) }
