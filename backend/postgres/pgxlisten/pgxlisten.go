// Package pgxlisten lets a queue on pgx/v5/stdlib listen for notifications.
package pgxlisten

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Listen is a value for the Listen option of package postgres. It takes one connection out of db
// for as long as it listens, so a limit set with SetMaxOpenConns must leave one for it, and puts
// none back: a connection that has listened is closed. A database that was not opened with
// pgx/v5/stdlib, or is limited to one connection, is [errors.ErrUnsupported]. So is one whose
// driver is wrapped, unless the wrapper's connections have a method Raw, as XSAM/otelsql's do: see
// [On]. It does not work through a pooler in transaction mode, where the connection is not the
// caller's own.
func Listen(ctx context.Context, db *sql.DB, channel string, ready func(), notify func(payload string)) error {
	if db.Stats().MaxOpenConnections == 1 {
		return fmt.Errorf("pgxlisten: the database is limited to one connection, which listening would keep: %w", errors.ErrUnsupported)
	}
	conn, err := connect(ctx, db)
	if err != nil {
		return fmt.Errorf("pgxlisten: %w", err)
	}
	defer conn.Close()
	err = conn.Raw(func(driverConn any) error {
		c, ok := unwrap(driverConn).(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("a connection of type %T, not one of pgx/v5/stdlib: %w", driverConn, errors.ErrUnsupported)
		}
		defer c.Conn().Close(context.WithoutCancel(ctx))
		return listen(ctx, c.Conn(), channel, ready, notify)
	})
	if err != nil {
		return fmt.Errorf("pgxlisten: %w", err)
	}
	return nil
}

// On is [Listen] on another pool than the queue's: one of the same database that was opened with
// pgx/v5/stdlib and no wrapper, for a queue over a driver that is wrapped to trace or to count. A
// queue listens with one connection for all its workers: two are enough for the pool, because
// Listen refuses a pool with a limit of one. The caller closes it after the workers have ended.
func On(plain *sql.DB) func(ctx context.Context, db *sql.DB, channel string, ready func(), notify func(payload string)) error {
	return func(ctx context.Context, _ *sql.DB, channel string, ready func(), notify func(payload string)) error {
		return Listen(ctx, plain, channel, ready, notify)
	}
}

// unwrap returns the driver's own connection, if its wrappers give it out.
func unwrap(driverConn any) any {
	for {
		wrapper, ok := driverConn.(interface{ Raw() driver.Conn })
		if !ok {
			return driverConn
		}
		driverConn = wrapper.Raw()
	}
}

// connect takes a connection of the pool, or gives up after connectTimeout: the network may have
// swallowed the connection, or the server may not answer. The caller tries again.
func connect(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return db.Conn(ctx)
}

func listen(ctx context.Context, c *pgx.Conn, channel string, ready func(), notify func(payload string)) error {
	if err := begin(ctx, c, channel); err != nil {
		return err
	}
	ready()
	for {
		n, err := wait(ctx, c)
		if err != nil {
			return err
		}
		notify(n.Payload)
	}
}

func begin(ctx context.Context, c *pgx.Conn, channel string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := c.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize())
	return err
}

const (
	connectTimeout = 5 * time.Second

	pingEvery   = 15 * time.Second // how often a silent connection is tried for being alive
	pingTimeout = 5 * time.Second
)

// wait returns the next notification. A connection whose other end is gone would keep it waiting
// for ever, so it is pinged now and then.
func wait(ctx context.Context, c *pgx.Conn) (*pgconn.Notification, error) {
	for {
		silent, cancel := context.WithTimeout(ctx, pingEvery)
		n, err := c.WaitForNotification(silent)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return n, err
		}
		alive, cancel := context.WithTimeout(ctx, pingTimeout)
		err = c.Ping(alive)
		cancel()
		if err != nil {
			return nil, err
		}
	}
}
