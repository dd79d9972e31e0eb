package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
)

// withSchedules puts before the reasons why no job was found what the schedules do that enqueue
// such jobs. If there are some, it is no wonder that no job waits.
func withSchedules(ctx context.Context, q *inquiry, reasons []Reason) ([]Reason, error) {
	schedules, err := q.Schedules(ctx)
	if ok, err := q.tryOrNote(ctx, "which schedules enqueue such jobs", err); !ok {
		return reasons, err
	}
	all := slices.SortedStableFunc(slices.Values(schedules), bySoonest)
	var ticks []Reason
	for _, s := range all {
		if !isAsked(q.question, &s) || len(ticks) == words.MaxNamed {
			continue
		}
		r, err := whyTick(ctx, q, &s)
		if err != nil {
			return nil, err
		}
		ticks = append(ticks, r)
	}
	slices.SortStableFunc(ticks, func(a, b Reason) int { return slices.Index(byLevel, a.Level) - slices.Index(byLevel, b.Level) })
	for i := range reasons {
		if r := &reasons[i]; len(ticks) > 0 && (r.ID == "empty-queue" || r.ID == "no-such-key") {
			r.Level, r.Remedy = ops.OK, ""
		}
	}
	return append(ticks, reasons...), nil
}

var byLevel = []ops.Level{ops.Fail, ops.Warn, ops.OK}

// bySoonest orders schedules by their next tick: a late one first, one that has none or is paused
// last.
func bySoonest(a, b queue.ScheduleRecord) int {
	ticks := func(s queue.ScheduleRecord) int {
		if s.Paused || s.Next.IsZero() {
			return 1
		}
		return 0
	}
	return cmp.Or(ticks(a)-ticks(b), a.Next.Compare(b.Next))
}

// isAsked reports whether the schedule enqueues such jobs as the question is about.
func isAsked(q Question, s *queue.ScheduleRecord) bool {
	job := s.Job
	if q.Queue != "" && q.Queue != cmp.Or(job.Queue, queue.DefaultQueue) {
		return false
	}
	if q.Key != "" {
		own := "cron:" + s.Name // see queue.Schedule
		return q.Key == cmp.Or(job.Key, own) || job.Key == "" && strings.HasPrefix(q.Key, own+":")
	}
	return q.Kind == "" || q.Kind == job.Kind
}

// whyTick returns what a schedule does, of which no job waits.
func whyTick(ctx context.Context, q *inquiry, s *queue.ScheduleRecord) (Reason, error) {
	what := fmt.Sprintf("The schedule %s, which enqueues jobs of the kind %s in the queue %s,", s.Name, s.Job.Kind, cmp.Or(s.Job.Queue, queue.DefaultQueue))
	switch late := q.at.Sub(s.Next); {
	case s.Paused:
		by, err := namePauser(ctx, q, queue.Target{Schedule: s.Name})
		return Reason{ID: "schedule-paused", Level: ops.Warn, Verdict: what + " is paused.", Evidence: append(by, describeLastTick(q, s)...),
			Remedy: q.Command("schedules", "resume", s.Name)}, err
	case !s.Next.IsZero() && late >= reader.Soon:
		return whyLateTick(ctx, q, s, what, late)
	}
	return whyNextTick(ctx, q, s, what)
}

// whyLateTick returns why a tick that has come was not fired.
func whyLateTick(ctx context.Context, q *inquiry, s *queue.ScheduleRecord, what string, late time.Duration) (Reason, error) {
	r := Reason{ID: "schedule-late", Level: words.LevelOf(late, 0, 15*time.Minute), Evidence: describeLastTick(q, s),
		Verdict: fmt.Sprintf("%s had a tick %v ago that nobody has fired.", what, words.Short(late)),
		Remedy:  "the log of a worker says why: it may lack the rights of errand_enqueuer, or a time zone"}
	if !q.knowsWorkers {
		if err := readWorkers(ctx, q); err != nil {
			return r, err
		}
	}
	if q.knowsWorkers && len(reader.Living(q.workers)) == 0 {
		r.Evidence, r.Remedy = append(r.Evidence, "no worker is alive"), words.StartFiring
		return r, nil
	}
	if q.Server == nil {
		return r, nil
	}
	held, err := q.Server.SchedulesHeld(ctx)
	if ok, err := q.tryOrAsk(ctx, "who has locked the schedule", seeLocks, err); !ok || len(held) == 0 {
		return r, err
	}
	r.Verdict += " A transaction has locked schedules, perhaps this one: workers pass over those."
	r.Evidence, r.Remedy = append(held.Evidence(), r.Evidence...), held.Remedy()
	return r, nil
}

// whyNextTick returns when a schedule ticks next, and whether the job of an earlier tick keeps that
// from enqueueing one.
func whyNextTick(ctx context.Context, q *inquiry, s *queue.ScheduleRecord, what string) (Reason, error) {
	r := Reason{ID: "schedule-later", Level: ops.OK, Verdict: what + " has no tick any more.", Evidence: describeLastTick(q, s)}
	if !s.Next.IsZero() {
		r.Verdict = fmt.Sprintf("%s ticks in %v.", what, words.Short(max(s.Next.Sub(q.at), 0)))
		r.Evidence = append([]string{"the next tick is at " + s.Next.Format(time.RFC3339)}, r.Evidence...)
	}
	if s.LastJob == 0 {
		return r, nil
	}
	job, ok, err := q.Inspector.Job(ctx, s.LastJob)
	switch {
	case err != nil:
		return r, err
	case !ok:
		r.Evidence = append(r.Evidence, fmt.Sprintf("its last job, %d, is not there any more: it was pruned or deleted", s.LastJob))
		return r, nil
	}
	r.Evidence = append(r.Evidence, fmt.Sprintf("its last job, %d, is %s", s.LastJob, job.Status))
	if isLive(job) && !s.Overlap {
		r.ID, r.Verdict = "schedule-skips", fmt.Sprintf("%s Before job %d has ended, its ticks enqueue nothing.", r.Verdict, job.ID)
		r.Remedy = q.Command("explain", job.ID)
		if job.Status == queue.StatusHeld {
			r.Level = ops.Fail
		}
	}
	return r, nil
}

// describeLastTick says when the schedule has last ticked.
func describeLastTick(q *inquiry, s *queue.ScheduleRecord) []string {
	if s.LastTick.IsZero() {
		return []string{"it has never ticked"}
	}
	return []string{fmt.Sprintf("its last tick was %v ago, at %s", words.Short(q.at.Sub(s.LastTick)), s.LastTick.Format(time.RFC3339))}
}
