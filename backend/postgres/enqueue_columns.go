package postgres

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// values returns the parameters of sql/enqueue_one.sql for a job.
func (b *Backend) values(j *queue.Job) []any {
	params := []any{queueOf(j), j.Kind, string(payloadOf(j)), nil, nil, nil, nil, nil, !b.options.Silent}
	if p := priorityOf(j); p != 0 {
		params[3] = int64(p)
	}
	if j.Delay != 0 {
		params[4] = sqlkit.Microseconds(j.Delay)
	}
	if !j.ScheduledAt.IsZero() {
		params[5] = timestamp(j.ScheduledAt)
	}
	if j.MaxAttempts != 0 {
		params[6] = int64(j.MaxAttempts)
	}
	if len(j.Headers) > 0 {
		params[7] = sqlkit.EncodeHeaders(j.Headers)
	}
	return params
}

// columns returns a statement's parameters for jobs: an array for each column, with the keys or
// without. A column is nil if every job has its default.
func (b *Backend) columns(jobs []*queue.Job, keys bool) []any {
	params := []any{
		sharedColumn(jobs, queueOf), sharedColumn(jobs, func(j *queue.Job) string { return j.Kind }), payloads(jobs),
		optionalColumn(jobs, "0", func(j *queue.Job) bool { return priorityOf(j) != 0 },
			func(a *array, j *queue.Job) { a.int(int64(priorityOf(j))) }),
		optionalColumn(jobs, "0", func(j *queue.Job) bool { return j.Delay != 0 },
			func(a *array, j *queue.Job) { a.int(sqlkit.Microseconds(j.Delay)) }),
		optionalColumn(jobs, noTime, func(j *queue.Job) bool { return !j.ScheduledAt.IsZero() },
			func(a *array, j *queue.Job) { a.string(timestamp(j.ScheduledAt)) }),
		optionalColumn(jobs, "0", func(j *queue.Job) bool { return j.MaxAttempts != 0 },
			func(a *array, j *queue.Job) { a.int(int64(j.MaxAttempts)) }),
	}
	if keys {
		params = append(params, optionalColumn(jobs, noText, func(j *queue.Job) bool { return j.Key != "" },
			func(a *array, j *queue.Job) { a.string(j.Key) }))
	}
	return append(params, optionalColumn(jobs, noText, func(j *queue.Job) bool { return len(j.Headers) > 0 },
		func(a *array, j *queue.Job) { a.string(sqlkit.EncodeHeaders(j.Headers)) }), b.queuesToNotify(jobs))
}

// replacingColumns returns the parameters of sql/enqueue_replacing.sql for jobs.
func (b *Backend) replacingColumns(jobs []*queue.Job) []any {
	return append(b.columns(jobs, true), groups(jobs), areOrdered(jobs),
		optionalColumn(jobs, "false", replaces, func(a *array, _ *queue.Job) { a.string("true") }),
		optionalColumn(jobs, "0", func(j *queue.Job) bool { return j.MaxDelay != 0 },
			func(a *array, j *queue.Job) { a.int(sqlkit.Microseconds(j.MaxDelay)) }), costs(jobs))
}

func replaces(j *queue.Job) bool { return j.OnDuplicate == queue.Replace }

// groups returns the column of the jobs' groups.
func groups(jobs []*queue.Job) any {
	return optionalColumn(jobs, noText, func(j *queue.Job) bool { return j.Group != "" },
		func(a *array, j *queue.Job) { a.string(j.Group) })
}

// areOrdered returns the column that says which jobs are ordered.
func areOrdered(jobs []*queue.Job) any {
	return optionalColumn(jobs, "false", func(j *queue.Job) bool { return j.Ordered },
		func(a *array, _ *queue.Job) { a.string("true") })
}

// costs returns the column of the jobs' costs.
func costs(jobs []*queue.Job) any {
	return optionalColumn(jobs, "0", func(j *queue.Job) bool { return j.Cost > 1 },
		func(a *array, j *queue.Job) { a.int(int64(j.Cost)) })
}

// costOf returns the job's cost, or nil for 1.
func costOf(j *queue.Job) any {
	if j.Cost > 1 {
		return int64(j.Cost)
	}
	return nil
}

// isOrdered returns true for an ordered job and nil for others.
func isOrdered(j *queue.Job) any {
	if j.Ordered {
		return true
	}
	return nil
}

// priorityOf returns the priority of the job in the table.
func priorityOf(j *queue.Job) int32 {
	if j.Ordered {
		return orderedPriority
	}
	return j.Priority
}

// payloads returns all payloads in one text, with U+001E between them. No JSON text contains that.
func payloads(jobs []*queue.Job) string {
	size := len(jobs)
	for _, j := range jobs {
		size += len(payloadOf(j))
	}
	var text strings.Builder
	text.Grow(size)
	for i, j := range jobs {
		if i > 0 {
			text.WriteByte(0x1e)
		}
		text.Write(payloadOf(j))
	}
	return text.String()
}

// sharedColumn returns a column that often has one value for all jobs, and then contains it once.
func sharedColumn(jobs []*queue.Job, of func(*queue.Job) string) string {
	first := of(jobs[0])
	if !slices.ContainsFunc(jobs, func(j *queue.Job) bool { return of(j) != first }) {
		jobs = jobs[:1]
	}
	var a array
	for _, j := range jobs {
		a.string(of(j))
	}
	return a.String()
}

// What stands in an array for a job that has no such value. No value is the same. The statements
// take it for the default, or make NULL of it. It is never NULL: with the server's array_nulls off,
// that is a word in the text of an array.
const (
	noText = `""`
	noTime = "-infinity"
)

// optionalColumn returns a column that is none for the jobs that do not have it.
func optionalColumn(jobs []*queue.Job, none string, has func(*queue.Job) bool, put func(*array, *queue.Job)) any {
	if !slices.ContainsFunc(jobs, has) {
		return nil
	}
	var a array
	for _, j := range jobs {
		if has(j) {
			put(&a, j)
		} else {
			a.raw(none)
		}
	}
	return a.String()
}

// queuesToNotify returns the queues whose sleeping workers the statement wakes.
func (b *Backend) queuesToNotify(jobs []*queue.Job) any {
	if b.options.Silent {
		return nil
	}
	var names []string
	for _, j := range jobs {
		name := queueOf(j)
		if len(names) == 0 || name != names[len(names)-1] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return textArray(slices.Compact(names))
}

func queueOf(j *queue.Job) string { return cmp.Or(j.Queue, queue.DefaultQueue) }

func payloadOf(j *queue.Job) json.RawMessage {
	if j.Payload == nil {
		return json.RawMessage("null")
	}
	return j.Payload
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
