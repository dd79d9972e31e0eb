package ops

import (
	"context"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Level says how bad the thing is that a [Check] or a [Reason] tells.
type Level string

// The levels.
const (
	OK      Level = "ok"      // as it should be
	Warn    Level = "warn"    // look at it soon
	Fail    Level = "fail"    // jobs do not run, are not safe, or will soon not run
	Skipped Level = "skipped" // not known; the Value of the check says why
)

// Check is what [Doctor] has found out about one thing.
type Check struct {
	// ID is the name of the check, such as "horizon". It will not change. docs/doctor.md lists them.
	ID string `json:"id"`
	// Level is [Skipped] if a right is missing, if the check does not apply, or if it took too long.
	Level Level `json:"level"`
	// Value is what the check has found, in one line.
	Value string `json:"value"`
	// Advice is what to do about it; "" if Level is [OK].
	Advice string `json:"advice,omitempty"`
	// SQL is the statements that the check has run, "" if none.
	SQL string `json:"sql,omitempty"`
	// Took is how long the check took.
	Took time.Duration `json:"took_ns"`
}

// Report is the answer of [Doctor].
type Report struct {
	// At is when the report was made, by the local clock.
	At time.Time `json:"at"`
	// Backend names the database: "PostgreSQL 18.1", "SQLite 3.50.4", "Redis 7.0.15", or "" if its
	// backend does not say.
	Backend string `json:"backend,omitempty"`
	// Checks are in the order in which docs/doctor.md lists them.
	Checks []Check `json:"checks"`
}

// Level returns the worst level of the checks: [Fail], [Warn] or [OK]. A skipped check counts as
// [OK].
func (r Report) Level() Level {
	worst := OK
	for _, c := range r.Checks {
		if c.Level == Fail || c.Level == Warn && worst == OK {
			worst = c.Level
		}
	}
	return worst
}

// Bounds are how long something may last before a check warns, and before it fails.
type Bounds struct {
	Warn time.Duration
	Fail time.Duration
}

// Options are those of [Doctor]. The zero value is what docs/doctor.md says.
type Options struct {
	// Backlog bounds how long a due job may have waited. A zero field means 1 or 15 minutes.
	Backlog Bounds
	// Horizon bounds how long a transaction may keep VACUUM from removing dead rows. A zero field
	// means 1 or 10 minutes.
	Horizon Bounds
	// Program is how the command lines of advice begin: the program, with flags that name the
	// database. It is text for a shell. "" means errand.
	Program string
	// Tool says that the program is a tool, and no worker's. Where a pooler is between the tool and
	// the server, the check listen is then skipped: it would tell nothing about workers.
	Tool bool
}

func (o Options) withDefaults() Options {
	o.Backlog = o.Backlog.or(time.Minute, 15*time.Minute)
	o.Horizon = o.Horizon.or(time.Minute, 10*time.Minute)
	return o
}

func (b Bounds) or(warn, fail time.Duration) Bounds {
	if b.Warn == 0 {
		b.Warn = warn
	}
	if b.Fail == 0 {
		b.Fail = fail
	}
	return b
}

// level returns the level of something that has lasted for d.
func (b Bounds) level(d time.Duration) Level { return levelOf(d, b.Warn, b.Fail) }

// levelOf returns [Warn] from warn on, and [Fail] from fail on.
func levelOf[T int | int64 | float64 | time.Duration](value, warn, fail T) Level {
	switch {
	case value >= fail:
		return Fail
	case value >= warn:
		return Warn
	}
	return OK
}

// checkTimeout is how long one check may take.
const checkTimeout = 2 * time.Second

// Doctor looks for what is wrong with q: with its server, its tables, its workers. It changes
// nothing. It runs one check after the other, and each takes two seconds at most. If the database
// cannot be reached, or not any more, the check "reach" fails and is the only one. The error is
// ctx's, or a [*queue.InvalidError] if q is nil.
func Doctor(ctx context.Context, q queue.Queue, o Options) (Report, error) {
	if _, ok := driver.As[queue.Queue](q); !ok {
		return Report{}, &queue.InvalidError{Field: "Queue", Problem: "nil"}
	}
	r := Report{At: time.Now()}
	d := &doctor{Reader: Open(q), program: program(o.Program), options: o.withDefaults()}
	checks, connect := everywhere, check{}
	switch {
	case d.Server != nil:
		checks, connect = slices.Concat(onPostgres, everywhere), check{"reach", reached}
	case d.File != nil:
		checks, connect = slices.Concat(onSQLite, everywhere), check{"reach", reachFile}
	case d.Served != nil:
		d.served = &served{backend: d.Served}
		checks, connect = slices.Concat(onServed, everywhere), check{"reach", reachServed}
	}
	if connect.look != nil {
		first := d.run(ctx, connect)
		r.Backend, r.Checks = d.backend(), []Check{first}
		if first.Level != OK {
			return r, ctx.Err()
		}
	}
	for _, c := range skipLocked(ctx, d, checks) {
		result := d.run(ctx, c)
		if d.isCut && connect.look != nil { // perhaps only this one connection broke
			if again := d.run(ctx, connect); again.Level != OK {
				r.Checks = []Check{again}
				return r, ctx.Err()
			}
			result = d.run(ctx, c)
		}
		r.Checks = append(r.Checks, result)
		if err := ctx.Err(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// doctor is one call of Doctor.
type doctor struct {
	*Reader
	program
	options Options
	served  *served // nil unless they are in Redis
	isCut   bool    // the last check has lost the connection
	pooled  bool    // the check pooler has found one
	// hasLocks is whether a transaction has locked a whole table of errand's, or waits for that.
	hasLocks bool
	// held is what keeps reports of workers waiting, if knowsHeld: see workers.
	held      *heldReports
	knowsHeld bool
}

// backend names the database.
func (d *doctor) backend() string {
	switch {
	case d.File != nil:
		return d.File.name
	case d.served != nil:
		return d.served.name()
	}
	return d.Server.name
}

// check is something that Doctor looks at.
type check struct {
	id string
	// look returns the level, the value and the advice.
	look func(ctx context.Context, d *doctor) (finding, error)
}

// finding is what a check has found. A zero level is OK.
type finding struct {
	level         Level
	value, advice string
}

// everywhere are the checks of all backends.
var everywhere = []check{
	{"backlog", backlog},
	{"nobody-serves", nobodyServes},
	{"fleet", fleet},
	{"schedules", scheduled},
}

// run runs a check. An error of it is a finding, too.
func (d *doctor) run(ctx context.Context, c check) Check {
	began := time.Now()
	d.isCut = false
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	f, err := c.look(ctx, d)
	if err != nil {
		f = d.failed(ctx, err)
		d.isCut = reach.Check(err) != nil && ctx.Err() == nil
	}
	result := Check{ID: c.id, Level: f.level, Value: plain.Line(f.value), Took: time.Since(began)}
	if result.Level == "" {
		result.Level = OK
	}
	if result.Level != OK {
		result.Advice = f.advice
	}
	switch {
	case d.Server != nil:
		result.SQL = d.Server.take()
	case d.File != nil:
		result.SQL = d.File.take()
	}
	return result
}
