// Package child runs a part of a scenario in a process of its own: a worker, or an enqueuer, that
// can be killed, frozen, and told to stop. Parent and child talk in lines. The child prints "ready"
// before it begins. A line from the parent is the go-ahead; the part defines what that means. A
// child ends with its parent.
package child

import (
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// Spec says what a child does. It is its argument, in JSON.
type Spec struct {
	Part   string `json:"part"` // a name of [parts]
	Name   string `json:"name"` // in the ledger; also the worker's name
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
	Gateway Gateway `json:"gateway"`

	Host Host `json:"-"`
}

// Host is the program and the environment of a child. Its zero value means those of the parent.
type Host struct {
	Program     string   // a program with the same parts; "" means the parent's
	Environment []string // name=value, added to the parent's
}

// Work is what a worker does, until SIGTERM.
type Work struct {
	peer.Worker
	Workers int           `json:"workers"` // how many there are in the process, each with a name of its own; 0 means one
	Handler string        `json:"handler"` // a name of [handlers]; "" means "plain"
	Least   time.Duration `json:"least"`   // how long a handler takes, at least; drawn by the job's number
	Most    time.Duration `json:"most"`
	Gauge   time.Duration `json:"gauge"`  // how often it notes what it uses; 0 means never
	Bad     BadOutcome    `json:"bad"`    // for the handler "burst"
	Claims  bool          `json:"claims"` // whether it records how long claims take
	Host    Host          `json:"-"`
}

// Enqueue is what an enqueuer does: it tries each numbered job once, until enough jobs are
// acknowledged, or until SIGTERM.
type Enqueue struct {
	Kind  peer.Kind `json:"kind"`  // "" means Plain
	First int       `json:"first"` // the number of the first job
	Jobs  int       `json:"jobs"`  // how many jobs must be acknowledged; 0 means no end
	Batch int       `json:"batch"` // the most jobs of a call; each call draws how many
	Ahead int       `json:"ahead"` // it waits while so many jobs have no effect yet; 0 means it never waits
	Rate  int       `json:"rate"`  // jobs a second, evenly; 0 means no limit
	Later Later     `json:"later"` // which jobs are due later
	Host  Host      `json:"-"`
}
