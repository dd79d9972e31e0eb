package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

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

// Examine looks for what is wrong with q: with its server, its tables, its workers. It changes
// nothing. It runs one check after the other, and each takes two seconds at most. If the database
// cannot be reached, or not any more, the check "reach" fails and is the only one. The error is
// ctx's, or a [*queue.InvalidError] if q is nil.
func Examine(ctx context.Context, q queue.Queue, o Options) (Report, error) {
	if _, ok := driver.As[queue.Queue](q); !ok {
		return Report{}, &queue.InvalidError{Field: "Queue", Problem: "nil"}
	}
	r := Report{At: time.Now()}
	opened := reader.Open(q)
	d := &doctor{Reader: opened, Program: opened.Program(o.Program), options: o.withDefaults()}
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
