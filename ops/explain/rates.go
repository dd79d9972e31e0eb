package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// whyRated returns the rates whose tokens are spent, of the queue and of the job's group.
func whyRated(ctx context.Context, q *inquiry) (reasons []Reason, err error) {
	j := q.job
	rates := map[string]queue.Rate{"": findRule(q, "").Rate}
	if j.Group != "" {
		rates[j.Group] = q.rules.groupRate(j.Queue, j.Group)
	}
	if rates[""].Jobs <= 0 && rates[j.Group].Jobs <= 0 {
		return nil, nil
	}
	waits, err := readRateWaits(ctx, q, j.Queue, slices.Compact([]string{"", j.Group})...)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(waits, func(group string, w driver.RateWait) bool {
		return rates[group].Jobs <= 0 || len(whySpent(q, w, rates[group], 0)) == 0
	})
	if len(waits) == 0 {
		return nil, nil
	}
	before, err := countBefore(ctx, q)
	for _, group := range slices.Sorted(maps.Keys(waits)) {
		reasons = append(reasons, whySpent(q, waits[group], rates[group], before[group])...)
	}
	return reasons, err
}

// countBefore returns how many due jobs take their tokens before the job: of its queue, as "", and
// of each group.
func countBefore(ctx context.Context, q *inquiry) (map[string]int, error) {
	n := make(map[string]int)
	if q.job.ScheduledAt.After(q.at) {
		return n, nil
	}
	list, _, _, err := readDue(ctx, q, q.job.Queue, q.job)
	for _, d := range list {
		isHandled := func(w driver.WorkerRecord) bool { return reader.Handles(w, d.kind) }
		if slices.Contains(q.pauses, d.kind) || len(q.claimers) > 0 && !slices.ContainsFunc(q.claimers, isHandled) {
			continue
		}
		n[""] += d.free
		if d.group != "" {
			n[d.group] += d.free
		}
	}
	return n, err
}

// whySpent returns the reason if the rate has too few tokens for the job. before is how many jobs
// take tokens before it.
func whySpent(q *inquiry, w driver.RateWait, rate queue.Rate, before int) []Reason {
	whose := "queue " + q.job.Queue
	if w.Group != "" {
		whose = fmt.Sprintf("group %q of the queue %s", w.Group, q.job.Queue)
	}
	if w.Throttled > 0 {
		return []Reason{{ID: "throttled", Level: words.LevelOf(w.Throttled, time.Minute, 24*time.Hour),
			Verdict:  fmt.Sprintf("The %s is throttled for %v more.", whose, words.Short(w.Throttled)),
			Evidence: []string{"a handler has returned queue.Throttle"},
			Remedy:   "wait: the service that the handler calls has asked for it. " + adviseUnthrottle(q, w.Group, rate)}}
	}
	// A job never waits for more tokens than the burst.
	if wait := w.Wait + time.Duration(min(max(q.job.Cost, 1), burst(rate))-1)*each(rate); wait > 0 {
		wait += time.Duration(before) * each(rate)
		r := Reason{ID: "queue-rate", Level: words.LevelOf(wait, time.Minute, 24*time.Hour),
			Verdict:  fmt.Sprintf("The rate of the %s is used up. The job may start in %v.", whose, words.Short(wait)),
			Evidence: []string{fmt.Sprintf("the rate is %s in %v", words.Count(rate.Jobs, "job"), plain.Duration(cmp.Or(rate.Per, time.Second)))},
			Remedy:   fmt.Sprintf("%s%s. With that it may start in %v", raiseLimit, adviseHigherRate(q, w.Group, rate), words.Short(wait/2))}
		switch {
		case before == 1:
			r.Evidence = append(r.Evidence, "1 due job before it takes its tokens first")
		case before > 1:
			r.Evidence = append(r.Evidence, fmt.Sprintf("%d due jobs before it take their tokens first", before))
		}
		if w.Group != "" {
			r.ID = "group-rate"
		}
		return []Reason{r}
	}
	return nil
}

// adviseHigherRate returns the command that doubles a rate of the job's queue, or of its group.
func adviseHigherRate(q *inquiry, group string, rate queue.Rate) string {
	rate.Jobs *= 2
	if group != "" && findRule(q, group).GroupRate.Jobs == 0 { // it is the queue's, for each group
		return q.Command("queues", "limit", q.job.Queue, "--group-rate", rateText(rate))
	}
	return adviseRate(q, group, rateText(rate))
}

// adviseUnthrottle says how to end a throttle of the job's queue, or of its group: by taking the
// rate away. Backends keep the throttle until it has passed, so it holds again if the rate comes
// back before.
func adviseUnthrottle(q *inquiry, group string, rate queue.Rate) string {
	none, again := "0", adviseRate(q, group, rateText(rate))
	switch {
	case group != "" && findRule(q, group).GroupRate.Jobs == 0: // it is the queue's, for each group
		none, again = "-1", adviseRate(q, group, "0")
	case group != "":
		none = "-1"
		if rate.Burst > 0 {
			again += fmt.Sprintf(" --group-rate-burst %d", rate.Burst)
		}
	case rate.Burst > 0:
		again += fmt.Sprintf(" --rate-burst %d", rate.Burst)
	}
	return fmt.Sprintf("To end it now, take the rate away: %s. When the throttle would have ended, and not before, give it back: %s", adviseRate(q, group, none), again)
}

// adviseRate returns the command that sets the rate of the job's queue, or of a group of it.
func adviseRate(q *inquiry, group, rate string) string {
	if group == "" {
		return q.Command("queues", "limit", q.job.Queue, "--rate", rate)
	}
	return q.Command("queues", "limit", q.job.Queue, "--group", group, "--group-rate", rate)
}

// rateText writes a rate as a flag of cmd/errand takes it.
func rateText(rate queue.Rate) string {
	return fmt.Sprintf("%d/%v", rate.Jobs, plain.Duration(cmp.Or(rate.Per, time.Second)))
}
