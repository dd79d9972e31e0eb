package queue

import (
	"database/sql"
	"fmt"
	"slices"
)

// ConnHolder is a [Handler] that holds a connection while it runs a job, as the handler of
// middleware.Tx does. A [Worker] finds it as its Handler, within a [Chain] or [Mux], and behind a
// method Unwrap() queue.Handler. It returns an error at start if the pool is too small ([Pooled]).
type ConnHolder interface {
	// HoldsConn returns the pool that the handler takes its connection from.
	HoldsConn() *sql.DB
}

// fewConns is how many connections the backend needs so that a heartbeat does not wait for a claim.
const fewConns = 2

// reserve tells the backend how many connections the handlers hold, until the caller calls release.
// If none would be left for the backend, reserve returns an error: leases would expire while Extend
// waits. If few would be left, it logs a warning.
func (r *run) reserve() (release func(), err error) {
	pool, ok := As[Pooled](r.Backend)
	if !ok {
		return func() {}, nil
	}
	dbs := poolsOf(r.Handler)
	left, release := pool.Reserve(r.Concurrency, dbs...)
	held := "no handler is known to hold one"
	if len(dbs) > 0 {
		held = fmt.Sprintf("each of %d handlers holds one", r.Concurrency)
	}
	if left < 1 {
		release()
		return nil, invalid("Worker.Backend", "its pool has too few connections: %s, the listener holds one, "+
			"and claims, settling and heartbeats need %d; %s, or lower Concurrency (docs/operations.md#pools)", held, fewConns, r.enoughConns(left))
	}
	if left < fewConns {
		r.Logger.Warn("errand: the pool has few connections; claims, settling and heartbeats will wait for one another; "+
			r.enoughConns(left)+" (docs/operations.md#pools)", "free", left, "held", held)
	}
	return release, nil
}

// enoughConns says how high a limit of the backend's pool is enough, of which left connections are
// left now.
func (r *run) enoughConns(left int) string {
	missing := fewConns - left
	if t, ok := As[Tabled](r.Backend); ok {
		if limit := t.Tables().DB.Stats().MaxOpenConnections; limit > 0 {
			return fmt.Sprintf("a limit of %d is enough (SetMaxOpenConns)", limit+missing)
		}
	}
	return fmt.Sprintf("a limit that is higher by %d is enough (SetMaxOpenConns)", missing)
}

// poolsOf returns the pools from which h, or a handler within it, takes a connection to hold.
func poolsOf(h Handler) (dbs []*sql.DB) {
	add := func(more ...*sql.DB) {
		for _, db := range more {
			if !slices.Contains(dbs, db) {
				dbs = append(dbs, db)
			}
		}
	}
	if holder, ok := h.(ConnHolder); ok {
		add(holder.HoldsConn())
	}
	if c, ok := h.(chain); ok {
		for _, holder := range c.holders {
			add(holder.HoldsConn())
		}
	}
	switch u := h.(type) {
	case *Mux:
		for _, inner := range u.handlers() {
			add(poolsOf(inner)...)
		}
	case interface{ Unwrap() Handler }:
		add(poolsOf(u.Unwrap())...)
	}
	return dbs
}
