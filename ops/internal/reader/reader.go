package reader

import (
	"context"
	"errors"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Reader asks a backend and its server questions, and judges no answer. It asks a question that has
// no parameters until there is an answer, and never again. It is for one goroutine.
type Reader struct {
	Queue     queue.Queue
	Inspector driver.Inspector // nil if the backend is none
	Server    *Server          // nil unless the jobs are in PostgreSQL
	File      *File            // nil unless they are in SQLite
	Served    driver.Served    // nil unless they are in Redis

	workers     answer[[]driver.WorkerRecord]
	backlogs    answer[[]driver.Backlog]
	rules       answer[[]queue.Rule]
	pausedKinds answer[[]string]
	schedules   answer[[]queue.ScheduleRecord]
}

// Open returns a Reader of the backend. It asks nothing yet.
func Open(q queue.Queue) *Reader {
	r := &Reader{Queue: q}
	r.Inspector, _ = driver.As[driver.Inspector](q)
	tabled, ok := driver.As[driver.Tabled](q)
	if !ok {
		r.Served, _ = driver.As[driver.Served](q)
		return r
	}
	switch t := tabled.Tables(); t.Dialect {
	case postgresDialect:
		r.Server = &Server{Tables: t}
	case sqliteDialect:
		r.File = &File{Tables: t}
	}
	return r
}

// Program returns how command lines in advice begin. Unless it is given, they name a schema that is
// not the default.
func (r *Reader) Program(given string) words.Program {
	if given == "" && r.Server != nil && r.Server.Tables.Schema != defaultSchema {
		return words.Program("errand --schema " + plain.ShellQuote(r.Server.Tables.Schema))
	}
	return words.Program(given)
}

// ErrNotTold is the error of a question for which the backend lacks the capability.
var ErrNotTold = errors.New("this backend does not tell")

// answer is the answer to a question, once there is one.
type answer[T any] struct {
	value   T
	isKnown bool
}

// ask asks the question unless its answer is known. C is the capability that answers it.
func ask[C, T any](ctx context.Context, r *Reader, a *answer[T], question func(C, context.Context) (T, error)) (T, error) {
	if a.isKnown {
		return a.value, nil
	}
	value, err := through(r, func(c C) (T, error) { return question(c, ctx) })
	a.value, a.isKnown = value, err == nil
	return value, err
}

// through asks the capability C of the backend. The error is ErrNotTold if the backend lacks it.
func through[C, T any](r *Reader, question func(C) (T, error)) (none T, err error) {
	c, ok := driver.As[C](r.Queue)
	if !ok {
		return none, ErrNotTold
	}
	return question(c)
}

// Workers returns the workers that have reported themselves, vanished ones among them.
func (r *Reader) Workers(ctx context.Context) ([]driver.WorkerRecord, error) {
	return ask(ctx, r, &r.workers, driver.Fleet.Workers)
}

// Runs returns the jobs that the named workers hold, and at most so many of each.
func (r *Reader) Runs(ctx context.Context, most int, workers ...string) ([]driver.RunningJob, error) {
	return through(r, func(f driver.Fleet) ([]driver.RunningJob, error) { return f.Runs(ctx, most, workers...) })
}

// Backlogs returns the queues that have due jobs.
func (r *Reader) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	return ask(ctx, r, &r.backlogs, driver.Inspector.Backlogs)
}

// Rules returns the rules of all queues and groups.
func (r *Reader) Rules(ctx context.Context) ([]queue.Rule, error) {
	return ask(ctx, r, &r.rules, driver.Ruler.Rules)
}

// PausedKinds returns the kinds that are paused.
func (r *Reader) PausedKinds(ctx context.Context) ([]string, error) {
	return ask(ctx, r, &r.pausedKinds, driver.Pauser.PausedKinds)
}

// Schedules returns all schedules.
func (r *Reader) Schedules(ctx context.Context) ([]queue.ScheduleRecord, error) {
	return ask(ctx, r, &r.schedules, driver.Scheduler.Schedules)
}

// Stats returns the statistics of the runs that the filter chooses.
func (r *Reader) Stats(ctx context.Context, filter queue.StatsFilter) ([]queue.StatsRecord, error) {
	return through(r, func(s driver.Statistician) ([]queue.StatsRecord, error) { return s.Stats(ctx, filter) })
}

// RateWaits returns what rates of a queue have left: of groups, and of the queue for "".
func (r *Reader) RateWaits(ctx context.Context, name string, groups ...string) ([]driver.RateWait, error) {
	return through(r, func(t driver.Ruler) ([]driver.RateWait, error) { return t.RateWaits(ctx, name, groups...) })
}

// AuditLog returns a page of the audit log, and where the next one begins.
func (r *Reader) AuditLog(ctx context.Context, filter queue.AuditFilter) (page []queue.AuditEntry, next int64, err error) {
	page, err = through(r, func(a driver.Auditor) (entries []queue.AuditEntry, err error) {
		entries, next, err = a.AuditLog(ctx, filter)
		return entries, err
	})
	return page, next, err
}
