// Package child runs a part of a measurement in a process of its own, so that memory and processor
// time of that part can be told apart.
//
// Parent and child talk in lines. The child prints "ready" when it is prepared, and starts when it
// reads "go". While it runs it prints "count" with the number of jobs that its handler has run, and
// "sample" with figures in JSON if the parent asked for them. It ends by itself, or when its
// standard input ends, and then prints "result" with a [Result] in JSON. The programs of package
// peer in JavaScript do the same.
package child

import "time"

// Spec says what a child does. It is its one argument, in JSON.
type Spec struct {
	Part   string `json:"part"` // a name of [parts]
	System string `json:"system"`
	DSN    string `json:"dsn"`

	Redis []string `json:"redis,omitempty"` // host:port of each node

	Gateway string `json:"gateway,omitempty"` // URL of the gateway that it uses instead of DSN; for errand-remote

	Workers     int           `json:"workers,omitempty"`      // how many workers of errand's the process has; 0 means one
	Concurrency int           `json:"concurrency,omitempty"`  // of errand's worker, or of the ideal's goroutines; 0 means errand's default
	Handler     time.Duration `json:"handler,omitempty"`      // how long a job takes; 0 means no time
	Jobs        int           `json:"jobs,omitempty"`         // how many jobs to enqueue
	Batch       int           `json:"batch,omitempty"`        // how many jobs a call
	Goroutines  int           `json:"goroutines,omitempty"`   // how many goroutines enqueue
	Rate        int           `json:"rate,omitempty"`         // jobs a second; 0 means as fast as can be
	Hold        time.Duration `json:"hold,omitempty"`         // how long a transaction stays open after the enqueue; for latency
	Duration    time.Duration `json:"duration,omitempty"`     // how long to measure
	Lease       time.Duration `json:"lease,omitempty"`        // of the worker; for cancel
	Listens     bool          `json:"listens,omitempty"`      // whether the worker is notified; for cancel
	Schema      string        `json:"schema,omitempty"`       // of the second table; for claims
	Address     string        `json:"address,omitempty"`      // host:port where it listens; for dashboard
	Empty       bool          `json:"empty,omitempty"`        // also measure claims that find nothing; for claims
	Rehearse    bool          `json:"rehearse,omitempty"`     // run some jobs before being ready, so that statements are prepared
	TimeClaims  bool          `json:"time_claims,omitempty"`  // measure errand's claims
	SampleEvery time.Duration `json:"sample_every,omitempty"` // of work and dashboard
}

// Figures are what was measured, by name.
type Figures map[string]float64

// Result is what a child reports at its end.
type Result struct {
	Handled int64   `json:"handled"` // how many jobs its handler ran
	Sum     int64   `json:"sum"`     // of the numbers of these jobs
	CPU     float64 `json:"cpu"`     // seconds of processor time since it began
	PeakRSS int64   `json:"peak_rss"`
	Written int64   `json:"written,omitempty"` // bytes to disk since it began, where that is known
	Figures Figures `json:"figures,omitempty"`
}
