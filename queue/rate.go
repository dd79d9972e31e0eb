package queue

import "time"

// Rate limits how many jobs start in a time, over all workers. The zero value is no limit. Tokens
// come evenly, Jobs of them in Per, and a claim spends one for each job, or as many as the job's
// Cost. In any time t, jobs of a total cost of at most Burst + Jobs*t/Per start. A claim spends
// tokens: the tokens of a job that is released, or whose worker crashes before it has run it, are
// lost.
type Rate struct {
	// Jobs is how many jobs start in Per. 0 means no limit. In the rule of a group, below 0 means no
	// limit, too.
	Jobs int `json:"jobs"`
	// Per is the time in which so many jobs start: from 1 ms to 366 days. 0 means a second. At most a
	// million jobs a second are possible.
	Per time.Duration `json:"per_ns,omitempty"`
	// Burst is how many jobs may start at once after a time without jobs. 0 means as many as come in
	// a tenth of a second, at least 1. With 1, jobs start one by one. Workers are late by some
	// milliseconds. If tokens for more than that fit into Burst, lateness loses none.
	Burst int `json:"burst,omitempty"`
}

const (
	// maxPer is the longest Per, and maxFill the longest time in which a burst may fill up.
	maxPer  = 366 * 24 * time.Hour
	maxFill = 10 * maxPer
)

// check returns an [*InvalidError] for the field of a rule that has the rate.
func (r Rate) check(field string, lowest int) error {
	per := r.Per
	if per == 0 {
		per = time.Second
	}
	switch {
	case r.Jobs < lowest || r.Jobs > maxRule:
		return invalid(field, "Jobs %d: between %d and %d", r.Jobs, lowest, maxRule)
	case r.Jobs <= 0 && r != Rate{Jobs: r.Jobs}:
		return invalid(field, "Per %v and Burst %d with Jobs %d: set Jobs", r.Per, r.Burst, r.Jobs)
	case r.Jobs <= 0:
		return nil
	case per < time.Millisecond || per > maxPer:
		return invalid(field, "Per %v: between 1ms and %v", r.Per, maxPer)
	case per/time.Duration(r.Jobs) < time.Microsecond:
		return invalid(field, "%d jobs in %v: at most one in a microsecond", r.Jobs, per)
	case r.Burst < 0 || r.Burst > maxRule:
		return invalid(field, "Burst %d: between 0 and %d", r.Burst, maxRule)
	case r.Burst > 1 && per/time.Duration(r.Jobs) > maxFill/time.Duration(r.Burst):
		return invalid(field, "Burst %d: tokens for it take longer than %v", r.Burst, maxFill)
	}
	return nil
}
