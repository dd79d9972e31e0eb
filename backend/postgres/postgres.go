package postgres

import (
	"database/sql"
	"sync/atomic"

	"github.com/errandhq/errand/backend/internal/clockwatch"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Backend is a queue in a PostgreSQL database. It is safe for concurrent use. It owns a goroutine
// and a connection only during a call; calls of Listen share one of each. Besides [queue.Queue] it
// implements every optional interface of package driver except for [driver.Served], which is for
// backends without tables, and [driver.TxBeginner], [driver.DeathTeller] and [driver.Upkeeper],
// which it does not need.
type Backend struct {
	db               *sql.DB
	options          Options
	sql              statements
	sweep            sqlkit.Sweep
	rations          rations
	ordered          orderedQueues
	notifications    atomic.Int64 // how many were heard
	sleepers         sleepers
	listening        listening
	reserved         atomic.Int64 // connections that handlers hold
	unansweredClaims unansweredClaims
	readSingly       atomic.Int64 // how many jobs to claim without payloads, see claimWithPayloads
	slow             slowPayloads
	strict           atomic.Bool // the database's default isolation level has made a statement fail
	trips            roundTrips
	health           poolHealth
	ticks            sqlkit.Ticks
	rules            rules
	badRows          badRows
	clock            clockwatch.Watch // of the server, for reclaiming
}

var _ queue.Queue = (*Backend)(nil)

// New returns the queue in db, without touching the database: run [Migrate] with the same Options
// first. The caller closes db, after every worker's Run has returned. The error is a
// [*queue.InvalidError].
func New(db *sql.DB, o Options) (*Backend, error) {
	if db == nil {
		return nil, sqlkit.Invalid("DB", "nil")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Backend{db: db, options: o, sql: loadStatements(o.Schema), badRows: badRows{turn: make(chan struct{}, 1)}}, nil
}

// Tables implements [driver.Tabled].
func (b *Backend) Tables() driver.Tables {
	return driver.Tables{
		DB: b.db, Dialect: "postgres", Schema: b.options.Schema, Retention: b.options.Retention,
		Version: lastVersion(),
	}
}
