package sqlkit

import (
	"errors"
	"time"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/queue"
)

// Batch is the schedules that one transaction fires. It has at least one job, if one is due, and
// otherwise keeps its bounds: a schedule whose jobs do not fit stays due with the ticks that are
// left.
type Batch struct {
	Schedules int      // at most so many rows are to be read
	Bytes     int      // no further row is to be read once the jobs of the rows have so many bytes
	Ready     []Firing // what is to be enqueued
	HasMore   bool     // more may be due
	// Broken names the schedules that could not be fired, and are left alone for a minute. Of a
	// schedule that is ready it warns if its tick is from other time zone data.
	Broken error

	ticks      *Ticks
	maxPayload int
	jobs       int // how many more may be added
	left       int // how many more bytes they may have
	until      time.Time
}

// Jobs returns the jobs of the batch, in the order of the schedules.
func (b *Batch) Jobs() (jobs []*queue.Job) {
	for _, f := range b.Ready {
		jobs = append(jobs, f.Jobs...)
	}
	return jobs
}

// Fire adds the jobs of rows whose ticks have come by that time.
func (b *Batch) Fire(rows []ScheduleRow, at time.Time) {
	b.left = b.Bytes
	b.HasMore = len(rows) >= b.Schedules || sizeOf(rows) >= b.Bytes
	for _, r := range rows {
		if len(b.Ready) > 0 && time.Now().After(b.until) {
			b.HasMore = true
			return
		}
		f, err := r.fire(at, b.maxPayload)
		if err != nil {
			b.ticks.Leave(r.Name, schedules.RetryTick)
			b.Broken = errors.Join(b.Broken, err)
			continue
		}
		n := b.take(f.Jobs)
		if n < len(f.Jobs) {
			b.HasMore = true
			if n == 0 {
				return
			}
			_, f.next, _ = queue.TickOf(f.Jobs[n])
			f.Jobs = f.Jobs[:n]
		}
		b.Ready = append(b.Ready, f)
		b.Broken = errors.Join(b.Broken, f.warning)
	}
}

// take returns how many of the jobs fit, from the first on.
func (b *Batch) take(jobs []*queue.Job) int {
	for i, j := range jobs {
		const row = 200 // bytes of a job without payload and headers, about
		size := row + len(j.Payload)
		for k, v := range j.Headers {
			size += len(k) + len(v)
		}
		isFirst := i == 0 && len(b.Ready) == 0
		if !isFirst && (b.jobs < 1 || b.left < size) {
			return i
		}
		b.jobs--
		b.left -= size
	}
	return len(jobs)
}

// sizeOf returns how many bytes the jobs of the rows have.
func sizeOf(rows []ScheduleRow) (n int) {
	for _, r := range rows {
		n += len(r.Job)
	}
	return n
}
