package queue

import "time"

// Retention says how long a backend keeps ended jobs before Prune removes them. The zero value
// keeps completed jobs for 7 days, and dead and cancelled ones for 30.
type Retention struct {
	// Completed is for jobs that are done; 0 means 7 days. Below 0 they are not kept at all:
	// settling deletes them, which is also the fastest.
	Completed time.Duration
	// Dead is for jobs that are dead or cancelled, which a person may redrive; 0 means 30 days.
	// Below 0 the next Prune removes them.
	Dead time.Duration
	// Archive moves jobs to the archive, a table, instead of deleting them. Settling then never
	// deletes completed jobs; the next Prune moves them. A queue in memory has no archive, and
	// deletes them all the same.
	Archive bool
}

// WithDefaults returns r with the defaults in place of zeros, for backends.
func (r Retention) WithDefaults() Retention {
	const day = 24 * time.Hour
	if r.Completed == 0 {
		r.Completed = 7 * day
	}
	if r.Dead == 0 {
		r.Dead = 30 * day
	}
	return r
}

// KeepsCompleted reports whether settling keeps a job that is done, for backends; r has its
// defaults.
func (r Retention) KeepsCompleted() bool { return r.Completed > 0 || r.Archive }
