// Package handle tells what a caller has passed as a [queue.DB], by what it can do: its type may be
// of any library. It also tells whose handler's transaction a call belongs to.
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
	// Pool is a pool of connections. It may send a statement again on another connection.
	Pool
	// Conn sends a statement once. It is a connection, which may be in a transaction that was
	// begun by hand, or a pool that repeats nothing.
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
	if PoolOf(db) != nil {
		return Pool, nil
	}
	return Unknown, nil
}

// isTx reports whether db can be committed and rolled back, with a context (as in pgx) or without.
func isTx(db queue.DB) bool {
	switch db.(type) {
	case interface{ isTx() }, interface {
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

// IsTx makes a handle that embeds it one of kind [Tx].
type IsTx struct{}

func (IsTx) isTx() {}

// isConn reports whether db is a *sql.Conn, or embeds one.
func isConn(db queue.DB) bool {
	switch db.(type) {
	case interface{ isConn() }, interface {
		Raw(f func(driverConn any) error) error
	}:
		return true
	}
	return false
}

// IsConn makes a handle that embeds it one of kind [Conn].
type IsConn struct{}

func (IsConn) isConn() {}

// Connector is a pool that hands out its connections, as *sql.DB does and what embeds it.
type Connector interface {
	Conn(ctx context.Context) (*sql.Conn, error)
}

// PoolOf returns the pool that db is, or that it stands for, as gorm's pools of prepared statements
// do; nil where there is none.
func PoolOf(db queue.DB) Connector {
	switch p := db.(type) {
	case Connector:
		return p
	case interface{ GetDBConn() (*sql.DB, error) }:
		if pool, err := p.GetDBConn(); err == nil && pool != nil {
			return pool
		}
	}
	return nil
}

// Same reports whether two handles are one. Handles of a type that cannot be compared never are.
func Same(a, b queue.DB) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}
