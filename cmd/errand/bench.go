package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// benchOptions are the flags of errand bench.
type benchOptions struct {
	jobs        int
	connections int
}

func (a *app) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a queue on your server, in a schema of its own",
		Long: `bench makes a schema, measures there, and drops it, also when it is interrupted.
On SQLite it does so in a new file beside yours. It touches nothing else, but it
loads the server for some ten seconds, and that server's other users with it.

It measures this program, the way to the server and the server together: other
load on any of them shows. Handlers do nothing, payloads are {}, one process
does all, and the table is short. So the figures are what is possible here, and
not what your handlers will reach. A second run tells how much they vary.

If it is killed, its schema or folder stays. The next bench names it, and says how
to remove it.`,
		Example: `  errand bench --url postgres://localhost/shop
  errand bench --jobs 100000 -o json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&o.jobs, "jobs", 20_000, "how many `jobs` to enqueue in batches, and to drain")
	cmd.Flags().IntVar(&o.connections, "connections", 8, "how many `callers` enqueue single jobs at once")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case o.jobs < batch || o.jobs > 10_000_000:
			return usagef("--jobs %d: between %d and 10000000", o.jobs, batch)
		case o.connections < 1 || o.connections > 100:
			return usagef("--connections %d: between 1 and 100", o.connections)
		}
		return a.working(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.bench(ctx, d, o) })(cmd, args)
	}
	return cmd
}

func (a *app) bench(ctx context.Context, d *dburl.Database, o benchOptions) (err error) {
	if err := needTables(d); err != nil {
		return err
	}
	if err := a.step(ctx, d, func(ctx context.Context) error { return a.tellLeftovers(ctx, d) }); err != nil {
		return err
	}
	r, err := makeRoom(ctx, d, o)
	if err != nil {
		return err
	}
	defer func() {
		removing := r.remove()
		if removing == nil || sqlState(removing) == readOnlyTransaction { // then nothing was made either
			return
		}
		removing = fmt.Errorf("%s is left, remove it: %w", r.name, removing)
		if err != nil {
			removing = fmt.Errorf("%w; %w", err, removing)
		}
		err = removing
	}()
	if err := r.migrate(ctx); err != nil {
		return err
	}
	var server string
	if err := r.db.QueryRowContext(ctx, r.about).Scan(&server); err != nil {
		return err
	}
	a.notef("measuring in %s, which is removed afterwards: %s", r.name, server)
	figures, err := a.measure(ctx, r, o)
	if err != nil {
		return err
	}
	return write(a, figures, func() table {
		t := table{columns: columns("WHAT VALUE UNIT ABOUT")}
		for _, f := range figures {
			t.add(f.What, f.text(), f.Unit, f.About)
		}
		return t
	})
}

// room is where the measurements are made: a schema, or a file, that was not there before.
type room struct {
	name    string
	about   string // the statement that tells what server it is, and how durable
	db      *sql.DB
	queue   queue.Queue
	migrate func(context.Context) error
	remove  func() error // also if migrate was not called, or has failed
}

// removeTime is how long removing a room may take.
const removeTime = time.Minute

func makeRoom(ctx context.Context, d *dburl.Database, o benchOptions) (*room, error) {
	suffix := strings.ToLower(rand.Text()[:10])
	if d.Scheme == dburl.SQLite {
		return makeFolder(ctx, d, benchFolder+suffix)
	}
	d.DB.SetMaxOpenConns(o.connections + 4) // the worker's claims, outcomes, heartbeats and LISTEN
	d.DB.SetMaxIdleConns(o.connections + 4)
	options := postgres.Options{Schema: benchSchema + suffix, Listen: pgxlisten.Listen}
	q, err := postgres.New(d.DB, options)
	if err != nil {
		return nil, err
	}
	return &room{
		name: "the schema " + options.Schema,
		about: `SELECT format('PostgreSQL %s, fsync %s, synchronous_commit %s', current_setting('server_version'),
			current_setting('fsync'), current_setting('synchronous_commit'))`,
		db:      d.DB,
		queue:   q,
		migrate: func(ctx context.Context) error { return postgres.Migrate(ctx, d.DB, options) },
		remove: func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
			defer cancel()
			_, err := d.DB.ExecContext(ctx, `DROP SCHEMA IF EXISTS "`+options.Schema+`" CASCADE`)
			return err
		},
	}, nil
}

// makeFolder makes a folder for a database, beside the file of d.
func makeFolder(ctx context.Context, d *dburl.Database, name string) (*room, error) {
	parent, err := parentFolder(ctx, d)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(parent, name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	db, err := sqlite.Open("sqlite", filepath.Join(folder, "bench.db"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	q, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close(), os.RemoveAll(folder))
	}
	return &room{
		name:    "the folder " + folder,
		about:   `SELECT 'SQLite ' || sqlite_version() || ', synchronous ' || synchronous FROM pragma_synchronous`,
		db:      db,
		queue:   q,
		migrate: func(ctx context.Context) error { return sqlite.Migrate(ctx, db, sqlite.Options{}) },
		remove:  func() error { return errors.Join(db.Close(), os.RemoveAll(folder)) },
	}, nil
}
