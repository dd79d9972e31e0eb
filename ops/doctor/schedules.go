package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
)

// maxLastJobs is how many jobs the check of schedules reads at most. Each is a call, and the check
// has two seconds for all.
const maxLastJobs = 100

// scheduled looks for schedules whose next tick nobody fires, and for those that skip ticks because
// an earlier tick's job has not ended.
func scheduled(ctx context.Context, d *doctor) (finding, error) {
	all, err := d.Schedules(ctx)
	if err != nil || len(all) == 0 {
		return finding{value: "there are no schedules"}, err
	}
	if f := refusedSchedules(all); f.level != "" {
		return f, nil
	}
	now := d.now()
	if f, err := findLateSchedules(ctx, d, all, now); err != nil || f.level != "" {
		return f, err
	}
	skipped := haveSkipped(all)
	f, err := findSkippingSchedules(ctx, d, skipped[:min(len(skipped), maxLastJobs)], now)
	if err != nil {
		return finding{}, err
	}
	if f.level == "" {
		f.value = words.Count(len(all), "schedule") + ": none is late, none skips ticks"
	}
	if len(skipped) > maxLastJobs {
		f.value += fmt.Sprintf("; of the %d that have ever skipped one, doctor looked at the %d with the oldest jobs", len(skipped), maxLastJobs)
	}
	return f, nil
}

// refusedSchedules looks for stored schedules whose Spec or Zone this release does not take. An
// older release may have taken it. Its level is "" if there are none.
func refusedSchedules(all []queue.ScheduleRecord) finding {
	var refused []string
	for _, s := range all {
		_, err := s.NextTick(time.Now(), time.Time{})
		var invalid *queue.InvalidError
		if !errors.As(err, &invalid) {
			continue
		}
		field, value := "Spec", s.Spec
		if invalid.Field == "Schedule.Zone" {
			field, value = "Zone", s.Zone
		}
		refused = append(refused, fmt.Sprintf("%s (%s %q: %s)", s.Name, field, value, strings.TrimPrefix(invalid.Problem, "of \""+s.Name+"\": ")))
	}
	if len(refused) == 0 {
		return finding{}
	}
	return finding{ops.Fail, "schedules that this release refuses: " + words.Enumerate(refused),
		"its workers do not fire them: declare or set them with a Spec and a Zone that it takes, before the upgrade"}
}

// haveSkipped returns the schedules that have skipped ticks, perhaps long ago, and may do so now.
// Those with the oldest jobs come first: old jobs are the likeliest to be in the way.
func haveSkipped(all []queue.ScheduleRecord) (some []queue.ScheduleRecord) {
	for _, s := range all {
		if !s.Paused && !s.Overlap && s.Skipped > 0 && s.LastJob != 0 {
			some = append(some, s)
		}
	}
	slices.SortFunc(some, func(a, b queue.ScheduleRecord) int { return cmp.Compare(a.LastJob, b.LastJob) })
	return some
}

// now is the time by the server's clock, as far as it is known.
func (d *doctor) now() time.Time {
	if d.Server == nil {
		return time.Now()
	}
	return d.Server.Identity.Clock.Add(time.Since(d.Server.Identity.Replied))
}

// findLateSchedules looks for ticks that have come long ago and were not fired.
func findLateSchedules(ctx context.Context, d *doctor, all []queue.ScheduleRecord, now time.Time) (finding, error) {
	var late []string
	longest := time.Duration(0)
	for _, s := range all {
		if wait := now.Sub(s.Next); !s.Next.IsZero() && wait >= d.options.Backlog.Warn {
			late = append(late, fmt.Sprintf("%s (for %v)", s.Name, words.Short(wait)))
			longest = max(longest, wait)
		}
	}
	if len(late) == 0 {
		return finding{}, nil
	}
	f := finding{d.options.Backlog.level(longest), "ticks that nobody has fired: " + words.Enumerate(late),
		"the log of a worker says why: it may lack the rights of errand_enqueuer, or a time zone, or somebody has written into the schedule's row"}
	workers, _, err := d.workers(ctx)
	if errors.Is(err, reader.ErrNotTold) {
		return f, nil
	}
	if err != nil {
		return finding{}, err
	}
	if len(reader.Living(workers)) == 0 {
		f.value += "; no worker is alive"
		f.advice = words.StartFiring
		return f, nil
	}
	if d.Server == nil {
		return f, nil
	}
	held, err := d.Server.SchedulesHeld(ctx)
	if err != nil || len(held) == 0 {
		return f, err
	}
	f.value += "; workers pass over schedules that are locked, and a transaction has locked some: " + held.Text()
	f.advice = held.Remedy()
	return f, nil
}

// findSkippingSchedules looks for schedules that have skipped ticks for a while because of a job
// that is live. Its level is "" if there are none.
func findSkippingSchedules(ctx context.Context, d *doctor, some []queue.ScheduleRecord, now time.Time) (worst finding, err error) {
	if d.Inspector == nil {
		return finding{}, nil
	}
	var skipping []string
	for _, s := range some {
		job, ok, err := d.Inspector.Job(ctx, s.LastJob)
		if err != nil {
			return finding{}, err
		}
		if !ok || !isSkipping(d, &s, &job, now) {
			continue
		}
		skipping = append(skipping, fmt.Sprintf("%s (job %d is %s)", s.Name, job.ID, liveText(&job)))
		if f := judgeSkipping(d, &job); worst.level == "" || f.level == ops.Fail && worst.level == ops.Warn {
			worst = f
		}
	}
	worst.value = "schedules that skip ticks, because the job of an earlier tick has not ended: " + words.Enumerate(skipping)
	return worst, nil
}

// isSkipping reports whether the schedule has skipped ticks for a while because the job is live.
func isSkipping(d *doctor, s *queue.ScheduleRecord, job *queue.Record, now time.Time) bool {
	switch job.Status {
	case queue.StatusPending, queue.StatusRunning, queue.StatusHeld:
	default:
		return false
	}
	if !s.LastTick.After(job.CreatedAt) {
		return false // nothing was skipped since
	}
	skipped, err := s.NextTick(job.CreatedAt, job.CreatedAt)
	return err == nil && now.Sub(skipped) >= d.options.Backlog.Warn
}

// liveText says what a live job does.
func liveText(job *queue.Record) string {
	if job.Status == queue.StatusPending && job.Attempt > 0 {
		return fmt.Sprintf("pending after %s", words.Count(job.Attempt, "attempt"))
	}
	return string(job.Status)
}

// judgeSkipping is what to do about a schedule that skips ticks because of the job.
func judgeSkipping(d *doctor, job *queue.Record) finding {
	if job.Status == queue.StatusHeld {
		return finding{level: ops.Fail, advice: fmt.Sprintf("mend what made job %d fail, then: %s; or: %s", job.ID, d.Command("jobs", "redrive", job.ID), d.Command("jobs", "delete", job.ID))}
	}
	return finding{level: ops.Warn, advice: "why it has not ended: " + d.Command("explain", job.ID) +
		". If its runs take longer than from tick to tick, give the schedule fewer ticks, or Overlap"}
}
