package server

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/internal/process"
)

// Standby makes a streaming standby of this server, with the same settings, and starts it. It
// returns when the standby has received all committed WAL. A port of "" means a free one.
func (p *Postgres) Standby(ctx context.Context, name, port string) (*Postgres, error) {
	all := p.servers
	s := &Postgres{Version: p.Version, servers: all, data: filepath.Join(all.dir, name), log: all.log(name), port: port, settings: p.settings}
	var err error
	if s.port == "" {
		if s.port, err = all.port(); err != nil {
			return nil, err
		}
	}
	err = all.run(ctx, filepath.Join(all.bin, "pg_basebackup"), "-d", p.URL("postgres", "application_name", standbyName),
		"-D", s.data, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")
	if err != nil {
		return nil, err
	}
	all.register(s)
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, s.CatchUp(ctx, p)
}

const standbyName = "standby"

// Port returns the port that the server listens on.
func (p *Postgres) Port() string { return p.port }

// Synchronous makes the server wait for its standby before it acknowledges a commit. It returns
// when it does.
func (p *Postgres) Synchronous(ctx context.Context) error {
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + standbyName + "'", "SELECT pg_reload_conf()"} {
		if err := p.runStatement(ctx, statement, func(pgx.Rows) error { return nil }); err != nil {
			return err
		}
	}
	return await(ctx, func() (sync bool, err error) {
		return queryOne[bool](ctx, p, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming')")
	})
}

// CatchUp waits until the standby has received what the primary has committed by now.
func (p *Postgres) CatchUp(ctx context.Context, primary *Postgres) error {
	committed, err := queryOne[string](ctx, primary, "SELECT pg_current_wal_flush_lsn()::text")
	if err != nil {
		return err
	}
	return await(ctx, func() (bool, error) {
		return queryOne[bool](ctx, p, "SELECT coalesce(pg_last_wal_receive_lsn() >= '"+committed+"', false)")
	})
}

// HoldReceiver stops the standby's WAL receiver with SIGSTOP. It waits until the standby has one:
// the base backup may bring all that is committed.
func (p *Postgres) HoldReceiver(ctx context.Context) (pid int, err error) {
	err = await(ctx, func() (bool, error) {
		pid, err = queryOne[int](ctx, p, "SELECT coalesce((SELECT pid FROM pg_stat_wal_receiver WHERE status = 'streaming'), 0)")
		return pid != 0, err
	})
	if err != nil {
		return 0, err
	}
	return pid, syscall.Kill(pid, syscall.SIGSTOP)
}

// Promote makes the standby a primary. held is the process of a held receiver, or 0. That process
// ends without reading what has arrived meanwhile. received is how far the standby had received
// WAL.
func (p *Postgres) Promote(ctx context.Context, held int) (received string, err error) {
	if held != 0 {
		// SIGTERM is delivered when SIGCONT lets the process run: it then ends at once.
		if err := errors.Join(syscall.Kill(held, syscall.SIGTERM), syscall.Kill(held, syscall.SIGCONT)); err != nil {
			return "", err
		}
		if err := await(ctx, func() (bool, error) { return !process.Alive(held), nil }); err != nil {
			return "", err
		}
	}
	if received, err = queryOne[string](ctx, p, "SELECT pg_last_wal_receive_lsn()::text"); err != nil {
		return "", err
	}
	if err := p.runStatement(ctx, "SELECT pg_promote(false)", func(pgx.Rows) error { return nil }); err != nil {
		return "", err
	}
	return received, await(ctx, func() (bool, error) { return queryOne[bool](ctx, p, "SELECT NOT pg_is_in_recovery()") })
}

// Revive starts a server that was killed and replaced, on a new port that no client knows. It
// returns how many bytes of WAL the server had beyond a position.
func (p *Postgres) Revive(ctx context.Context, beyond string) (bytes int64, err error) {
	if p.port, err = p.servers.port(); err != nil {
		return 0, err
	}
	p.settings = maps.Clone(p.settings)
	p.settings["fsync"] = "off" // its data are removed soon, and with fsync it would first sync every file
	if err := p.Start(ctx); err != nil {
		return 0, err
	}
	// The checkpoint at the end of the recovery is the first one since.
	return queryOne[int64](ctx, p, "SELECT (redo_lsn - '"+beyond+"')::bigint FROM pg_control_checkpoint()")
}

// PairRoute returns a function that changes a URL of one of two servers. The new URL leads to the
// server that accepts writes, on the ports that they have now.
func PairRoute(a, b *Postgres) func(dsn string) (string, error) {
	both := a.Address() + "," + b.Address()
	return func(dsn string) (string, error) { return reroute(dsn, both, "target_session_attrs", "read-write") }
}

// queryOne returns the one value that a query returns.
func queryOne[T any](ctx context.Context, p *Postgres, query string) (value T, err error) {
	there := false
	err = p.runStatement(ctx, query, func(rows pgx.Rows) error {
		there = true
		return rows.Scan(&value)
	})
	if err == nil && !there {
		err = pgx.ErrNoRows
	}
	return value, err
}

// await waits until a condition is true.
func await(ctx context.Context, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if ok, err := condition(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
