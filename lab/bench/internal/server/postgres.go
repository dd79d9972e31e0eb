package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/lab/internal/process"
	"github.com/errandhq/errand/lab/internal/server"
)

// settings are those of a server that bench starts. It is durable. It has more memory and
// connections than a fresh installation, and a longer log, so that no checkpoint disturbs one
// system and not another.
var settings = map[string]string{
	"shared_buffers":  "1GB",
	"max_connections": "300",
	"max_wal_size":    "8GB",
}

// Postgres is the server that most systems share. The database belongs to the run.
type Postgres struct {
	DSN         string // for the measured processes
	OwnDSN      string // for this process: it names its sessions
	Description string
	server      *postgrestest.Server
	admin       *pgx.Conn
	pid         int // of its first process; 0 if unknown
}

func startPostgres(ctx context.Context) (*Postgres, error) {
	started, err := postgrestest.Start(ctx, postgrestest.Options{Durable: true, Settings: settings})
	if err != nil {
		return nil, err
	}
	own, err := server.WithParameter(started.DSN, "application_name", ownName)
	if err != nil {
		return nil, errors.Join(err, started.Close())
	}
	p := &Postgres{DSN: started.DSN, OwnDSN: own, server: started}
	if p.admin, err = pgx.Connect(ctx, own); err != nil {
		return nil, errors.Join(err, started.Close())
	}
	if p.Description, err = p.describe(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.pid = p.findProcess(ctx)
	return p, nil
}

// ownName is the name of this process's sessions.
const ownName = "errand-bench"

// describe returns the server's settings that matter to speed. A server of DATABASE_URL has its
// own.
func (p *Postgres) describe(ctx context.Context) (string, error) {
	text := p.server.Description
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size"} {
		var value string
		if err := p.admin.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
			return "", err
		}
		text += fmt.Sprintf(", %s %s", name, value)
	}
	return text, nil
}

// findProcess returns the PID of the server's first process. It returns 0 if the server is on
// another machine, in a container, or another user's.
func (p *Postgres) findProcess(ctx context.Context) int {
	var dir string
	if err := p.admin.QueryRow(ctx, `SELECT current_setting('data_directory')`).Scan(&dir); err != nil {
		return 0
	}
	text, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return pid
}

// wipeSQL ends the sessions that a system may have left, and drops everything in the database.
const wipeSQL = `
DO $$
DECLARE name text;
BEGIN
	PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename = current_user AND backend_type = 'client backend';
	FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
		EXECUTE format('DROP SCHEMA %I CASCADE', name);
	END LOOP;
	CREATE SCHEMA public;
END $$`

func (p *Postgres) wipe(ctx context.Context) error {
	if _, err := p.admin.Exec(ctx, wipeSQL); err != nil {
		return err
	}
	return p.Checkpoint(ctx)
}

// Checkpoint makes the server write all changes to disk, if the user has the right to ask for that.
func (p *Postgres) Checkpoint(ctx context.Context) error {
	_, err := p.admin.Exec(ctx, `CHECKPOINT`)
	if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.Code == "42501" { // insufficient_privilege
		return nil
	}
	return err
}

// Exec runs statements in the run's database, one after the other.
func (p *Postgres) Exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := p.admin.Exec(ctx, s); err != nil {
			return fmt.Errorf("%.40s: %w", s, err)
		}
	}
	return nil
}

// Number returns the number that a query returns.
func (p *Postgres) Number(ctx context.Context, query string) (n int64, err error) {
	err = p.admin.QueryRow(ctx, query).Scan(&n)
	return n, err
}

// With returns DSN with a server setting.
func (p *Postgres) With(setting, value string) (dsn string, err error) {
	return server.WithParameter(p.DSN, setting, value)
}

// SessionCPU returns the processor time that each session of an application has used, by its
// process ID. Parallel workers of such a session count as sessions. It returns none if the server
// is on another machine.
func (p *Postgres) SessionCPU(ctx context.Context, application string) (map[int]time.Duration, error) {
	used := make(map[int]time.Duration)
	if p.pid == 0 {
		return used, nil
	}
	rows, err := p.admin.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE application_name = $1`, application)
	if err != nil {
		return nil, err
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	for _, pid := range pids {
		if d, ok := process.Used(pid); ok {
			used[pid] = d
		}
	}
	return used, err
}

// Pin opens an old snapshot, as a long report or a dump has: the server keeps all dead rows from
// then on, until the caller calls release.
func (p *Postgres) Pin(ctx context.Context) (release func() error, err error) {
	conn, err := pgx.Connect(ctx, p.OwnDSN)
	if err != nil {
		return nil, err
	}
	release = func() error { return conn.Close(context.WithoutCancel(ctx)) }
	for _, s := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM pg_class`} {
		if _, err := conn.Exec(ctx, s); err != nil {
			return nil, errors.Join(err, release())
		}
	}
	return release, nil
}

func (p *Postgres) read(ctx context.Context) (Reading, error) {
	r := Reading{SQL: true}
	err := p.admin.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, xact_commit
		FROM pg_stat_database WHERE datname = current_database()`).Scan(&r.WAL, &r.Commits)
	if p.pid != 0 {
		r.CPU, r.Timed = process.ServerCPU(p.pid)
	}
	return r, err
}

// awaitQuiet waits until the children's sessions have ended. A session reports its commits at its
// end at the latest; before version 15 this takes another half second.
func (p *Postgres) awaitQuiet(ctx context.Context) error {
	const patience = 2 * time.Second
	for from := time.Now(); time.Since(from) < patience; time.Sleep(10 * time.Millisecond) {
		var sessions, version int
		err := p.admin.QueryRow(ctx, `SELECT count(*), current_setting('server_version_num')::integer FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> $1`, ownName).Scan(&sessions, &version)
		if err != nil {
			return err
		}
		if sessions > 0 {
			continue
		}
		if version < 150000 {
			time.Sleep(600 * time.Millisecond)
		}
		return nil
	}
	return nil // some session goes on, and its last commits are not counted
}

func (p *Postgres) close() error {
	return errors.Join(p.admin.Close(context.Background()), p.server.Close())
}
