// Package child is the program as a process of its own: a worker, or an enqueuer, that
// can be killed, frozen and told to stop. Parent and child speak in lines: the
// child says "ready" when it is about to begin; a line from the parent is a signal
// whose meaning is the part's. A child ends with its parent.
package child

import (
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// Spec says what a child is to do. It is an argument, in JSON.
type Spec struct {
	Part   string `json:"part"` // a name of [parts]
	Name   string `json:"name"` // in the ledger, and the worker's
	System string `json:"system"`
	DSN    string `json:"dsn"`
	Ledger string `json:"ledger"`
	Seed   uint64 `json:"seed"`

	Work    Work    `json:"work"`
	Enqueue Enqueue `json:"enqueue"`
	Claim   Claim   `json:"claim"`
	Commit  Commit  `json:"commit"`
	Fuzz    Fuzz    `json:"fuzz"`
	Contend Contend `json:"contend"`

	Host Host `json:"-"`
}

// Host is what a child runs on. Its zero value is what the parent itself runs on.
type Host struct {
	Program     string   // the child's own, which must know the same parts; "" means the parent's
	Environment []string // name=value, beyond the parent's
}

// Work is what a worker does, until SIGTERM.
type Work struct {
	peer.Worker
	Handler string        `json:"handler"` // a name of [handlers]; "" means "plain"
	Least   time.Duration `json:"least"`   // how long a handler takes, drawn by the number of the job
	Most    time.Duration `json:"most"`
	Gauge   time.Duration `json:"gauge"`  // how often it writes down what it takes up; 0 means never
	Bad     BadOutcome    `json:"bad"`    // of the handler "burst"
	Claims  bool          `json:"claims"` // whether the times of claims are put on record
	Host    Host          `json:"-"`
}

// Enqueue is what an enqueuer does: it enqueues numbered jobs, each once, whatever
// comes of it, until so many have been acknowledged, or SIGTERM.
type Enqueue struct {
	Kind  peer.Kind `json:"kind"`  // "" means Plain
	First int       `json:"first"` // the number of the first
	Jobs  int       `json:"jobs"`  // how many are to be acknowledged; 0 means no end
	Batch int       `json:"batch"` // the most of one call; each call draws its number
	Ahead int       `json:"ahead"` // how many of all jobs may be without effect before it waits; 0 means any number
	Rate  int       `json:"rate"`  // jobs a second, evenly; 0 means as fast as it goes
	Later Later     `json:"later"` // which of them are due later
	Host  Host      `json:"-"`
}
