package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Check is what [Examine] has found out about one thing.
type Check struct {
	// ID is the name of the check, such as "horizon". It will not change. docs/doctor.md lists them.
	ID string `json:"id"`
	// Level is [ops.Skipped] if a right is missing, if the check does not apply, or if it took too
	// long.
	Level ops.Level `json:"level"`
	// Value is what the check has found, in one line.
	Value string `json:"value"`
	// Advice is what to do about it; "" if Level is [ops.OK].
	Advice string `json:"advice,omitempty"`
	// SQL is the statements that the check has run, "" if none.
	SQL string `json:"sql,omitempty"`
	// Took is how long the check took.
	Took time.Duration `json:"took_ns"`
}

// Report is the answer of [Examine].
type Report struct {
	// At is when the report was made, by the local clock.
	At time.Time `json:"at"`
	// Backend names the database: "PostgreSQL 18.1", "SQLite 3.50.4", "Redis 7.0.15", or "" if its
	// backend does not say.
	Backend string `json:"backend,omitempty"`
	// Checks are in the order in which docs/doctor.md lists them.
	Checks []Check `json:"checks"`
}

// Level returns the worst level of the checks: [ops.Fail], [ops.Warn] or [ops.OK]. A skipped check
// counts as [ops.OK].
func (r Report) Level() ops.Level {
	worst := ops.OK
	for _, c := range r.Checks {
		if c.Level == ops.Fail || c.Level == ops.Warn && worst == ops.OK {
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

// Options are those of [Examine]. The zero value is what docs/doctor.md says.
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
func (b Bounds) level(d time.Duration) ops.Level { return words.LevelOf(d, b.Warn, b.Fail) }

// Examine looks for what is wrong with q: with its server, its tables, its workers. It changes
// nothing. It runs one check after the other, and each takes two seconds at most. If the database
// cannot be reached, or not any more, the check "reach" fails and is the only one. The error is
// ctx's, or a [*queue.InvalidError] if q is nil.
func Examine(ctx context.Context, q queue.Queue, o Options) (Report, error) {
	if _, ok := driver.As[queue.Queue](q); !ok {
		return Report{}, &queue.InvalidError{Field: "Queue", Problem: "nil"}
	}
	r := Report{At: time.Now()}
	d := &doctor{Reader: reader.Open(q), Program: words.Program(o.Program), options: o.withDefaults()}
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
		if first.Level != ops.OK {
			return r, ctx.Err()
		}
	}
	for _, c := range skipLocked(ctx, d, checks) {
		result := d.run(ctx, c)
		if d.isCut && connect.look != nil { // perhaps only this one connection broke
			if again := d.run(ctx, connect); again.Level != ops.OK {
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

// doctor is one call of Examine.
type doctor struct {
	*reader.Reader
	words.Program
	options Options
	served  *served // nil unless they are in Redis
	isCut   bool    // the last check has lost the connection
	pooled  bool    // the check pooler has found one
	// hasLocks is whether a transaction has locked a whole table of errand's, or waits for that.
	hasLocks bool
	// held is what keeps reports of workers waiting, if knowsHeld: see workers.
	held      *reader.HeldReports
	knowsHeld bool
}

// backend names the database.
func (d *doctor) backend() string {
	switch {
	case d.File != nil:
		return d.File.Name
	case d.served != nil:
		return d.served.name()
	}
	return d.Server.Name
}

// check is something that Examine looks at.
type check struct {
	id string
	// look returns the level, the value and the advice.
	look func(ctx context.Context, d *doctor) (finding, error)
}

// finding is what a check has found. A zero level is OK.
type finding struct {
	level         ops.Level
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
	ctx, cancel := context.WithTimeout(ctx, reader.CheckTimeout)
	defer cancel()
	f, err := c.look(ctx, d)
	if err != nil {
		f = d.failed(ctx, err)
		d.isCut = reach.Check(err) != nil && ctx.Err() == nil
	}
	result := Check{ID: c.id, Level: f.level, Value: plain.Line(f.value), Took: time.Since(began)}
	if result.Level == "" {
		result.Level = ops.OK
	}
	if result.Level != ops.OK {
		result.Advice = f.advice
	}
	switch {
	case d.Server != nil:
		result.SQL = d.Server.Take()
	case d.File != nil:
		result.SQL = d.File.Take()
	}
	return result
}
