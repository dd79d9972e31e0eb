// Package handle tells what a caller has passed as a [queue.DB], by what it can do: its type may be
// of any library.
package handle

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"

	"github.com/errandhq/errand/queue"
)

// Kind is what a handle is.
type Kind uint8

const (
	// Unknown is a handle that only runs statements: a pool, a connection or a transaction.
	Unknown Kind = iota
	// Own is nil, which means the backend's own handle.
	Own
	// Tx is a transaction: it can be committed and rolled back.
	Tx
	// Pool is a pool of connections.
	Pool
	// Conn is a connection of database/sql's, which may be in a transaction that was begun by hand.
	Conn
)

// Of returns what db is. The error is a [*queue.InvalidError]: db is a nil pointer in an interface.
func Of(db queue.DB) (Kind, error) {
	if db == nil {
		return Own, nil
	}
	if v := reflect.ValueOf(db); v.Kind() == reflect.Pointer && v.IsNil() {
		problem := fmt.Sprintf("a nil %T: pass nil itself for the backend's own handle", db)
		return Unknown, &queue.InvalidError{Field: "DB", Problem: problem}
	}
	switch {
	case isTx(db):
		return Tx, nil
	case isConn(db):
		return Conn, nil
	}
	if _, ok := poolOf(db); ok {
		return Pool, nil
	}
	return Unknown, nil
}

// isTx reports whether db can be committed and rolled back, with a context (as in pgx) or without.
func isTx(db queue.DB) bool {
	switch db.(type) {
	case interface {
		Commit() error
		Rollback() error
	}, interface {
		Commit(ctx context.Context) error
		Rollback(ctx context.Context) error
	}:
		return true
	}
	return false
}

// isConn reports whether db is a *sql.Conn, or embeds one.
func isConn(db queue.DB) bool {
	_, ok := db.(interface {
		Raw(f func(driverConn any) error) error
	})
	return ok
}

// connector is a pool that hands out its connections, as *sql.DB does and what embeds it.
type connector interface {
	Conn(ctx context.Context) (*sql.Conn, error)
}

// poolOf returns the pool that db is, or that it stands for, as gorm's pools of prepared statements do.
func poolOf(db queue.DB) (pool connector, ok bool) {
	if pool, ok = db.(connector); ok {
		return pool, true
	}
	if g, ok := db.(interface{ GetDBConn() (*sql.DB, error) }); ok {
		if pool, err := g.GetDBConn(); err == nil && pool != nil {
			return pool, true
		}
	}
	return nil, false
}
