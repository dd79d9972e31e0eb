package queue

import (
	"database/sql"
	"slices"
)

// ConnHolder is a [Handler] that holds a connection while it runs a job, as the handler of
// middleware.Tx does. An [engine.Worker] finds it as its Handler, within a [Chain] or [Mux], and
// behind a method Unwrap() queue.Handler. It returns an error at start if the pool is too small
// ([driver.Pooled]).
type ConnHolder interface {
	// HoldsConn returns the pool that the handler takes its connection from.
	HoldsConn() *sql.DB
}

// connsHeld returns the pools from which h, or a handler within it, takes a connection to hold.
func connsHeld(h Handler) (dbs []*sql.DB) {
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
		for _, kind := range u.Kinds() {
			r, _ := u.route(kind)
			add(connsHeld(r.handler)...)
		}
	case interface{ Unwrap() Handler }:
		add(connsHeld(u.Unwrap())...)
	}
	return dbs
}
