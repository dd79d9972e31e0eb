// Package child runs a part of a measurement in a process of its own, so that
// the memory and the processor time that it uses are its own.
//
// Parent and child speak in lines. The child says "ready" when it has prepared
// itself, and begins when it is told "go". Meanwhile it says "count" and how many
// jobs its handler has run, and "sample" and figures in JSON where it is asked for
// them. It ends by itself or when its standard input does, and then says "result"
// and a [Result] in JSON. The worker of graphile-worker, in JavaScript, does the
// same.
package child

import "time"

// Spec says what a child is to do. It is its one argument, in JSON.
type Spec struct {
	Part   string `json:"part"` // a name of [parts]
	System string `json:"system"`
	DSN    string `json:"dsn"`
	Redis  string `json:"redis"`

	Concurrency int           `json:"concurrency,omitempty"` // of errand's worker, or of the ideal's goroutines; 0 means errand's default
	Handler     time.Duration `json:"handler,omitempty"`     // how long a job takes; 0 means no time
	Jobs        int           `json:"jobs,omitempty"`        // how many to enqueue
	Batch       int           `json:"batch,omitempty"`       // how many a call
	Goroutines  int           `json:"goroutines,omitempty"`  // how many enqueue at once
	Rate        int           `json:"rate,omitempty"`        // jobs a second; 0 means as fast as can be
	Hold        time.Duration `json:"hold,omitempty"`        // how long a transaction stays open after it has enqueued, in latency
	Duration    time.Duration `json:"duration,omitempty"`    // for how long
	Schema      string        `json:"schema,omitempty"`      // of the second table, in claims
	Empty       bool          `json:"empty,omitempty"`       // measure claims that find nothing, too, in claims
	Rehearse    bool          `json:"rehearse,omitempty"`    // work off some jobs before being ready, so that statements are prepared
	TimeClaims  bool          `json:"time_claims,omitempty"` // measure errand's claims
	SampleEvery time.Duration `json:"sample_every,omitempty"`
}

// Figures are what was measured, by name.
type Figures map[string]float64

// Result is what a child has to say at its end.
type Result struct {
	Handled int64   `json:"handled"` // jobs that its handler ran
	Sum     int64   `json:"sum"`     // of their numbers
	CPU     float64 `json:"cpu"`     // seconds of processor time since it began
	PeakRSS int64   `json:"peak_rss"`
	Written int64   `json:"written,omitempty"` // bytes to disk since it began, where that is known
	Figures Figures `json:"figures,omitempty"`
}
