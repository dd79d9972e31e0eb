package peer

import (
	"context"
	"errors"
	"net/url"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/lab/internal/peer"
	"github.com/errandhq/errand/queue"
)

func openPostgres(_ context.Context, dsn string, connections int) (Peer, error) {
	return openWith("pgx", postgres.Options{Listen: pgxlisten.Listen}, dsn, connections)
}

// openPooled opens errand without a listener, which would need its own connection.
func openPooled(_ context.Context, dsn string, connections int) (Peer, error) {
	return openWith("pgx", postgres.Options{}, dsn, connections)
}

// openPooledPQ does the same over lib/pq, to which the mode of pgx means nothing.
func openPooledPQ(_ context.Context, dsn string, connections int) (Peer, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	query.Del("default_query_exec_mode")
	u.RawQuery = query.Encode()
	return openWith("postgres", postgres.Options{}, u.String(), connections)
}

func openWith(driver string, options postgres.Options, dsn string, connections int) (Peer, error) {
	db, err := peer.OpenDB(driver, dsn, connections)
	if err != nil {
		return nil, err
	}
	keeping := func(completed time.Duration) (queue.Queue, error) {
		options := options
		options.Retention.Completed = completed
		return postgres.New(db, options)
	}
	q, err := keeping(0)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &errand{db, q, table{
		keeping: keeping,
		install: func(ctx context.Context) error { return postgres.Migrate(ctx, db, options) },
		jobs:    postgresJobs,
		live:    `SELECT (SELECT count(*) FROM errand.jobs WHERE status = 'pending') + (SELECT count(*) FROM errand.jobs WHERE status = 'running')`,
	}}, nil
}

// The number is in the headers if the payload is something else.
const postgresJobs = `SELECT coalesce(headers ->> 'number', payload ->> 'number')::bigint, status::text, attempts, coalesce(locked_by, ''), coalesce(last_error, ''),
	(extract(epoch FROM updated_at) * 1000000)::bigint, concat_ws(' | ', status, attempts, fence, locked_by, scheduled_at, updated_at, last_error)
	FROM errand.jobs WHERE $1::text = '' OR status = 'running' AND locked_by = $1::text`
