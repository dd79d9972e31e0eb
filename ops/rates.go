package ops

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue"
)

// bucket holds the tokens of a rate. Times are nanoseconds since 1970. See the table tokens.
type bucket struct {
	group                   string
	at, fullAt, each, until int64
}

// buckets reads the buckets of groups that are not full, "" for the rate of the queue. The zero
// answer also means that the role may not read them, which is noted.
func (f *facts) buckets(ctx context.Context, name string, groups ...string) (list []bucket, err error) {
	if served, ok := queue.As[queue.Served](f.queue); ok {
		return f.servedBuckets(ctx, served, name, groups)
	}
	names, err := json.Marshal(groups)
	if err != nil {
		return nil, err
	}
	err = f.server.rows(ctx, "tokens", func(r *sql.Rows) error {
		var b bucket
		err := r.Scan(&b.group, &b.at, &b.fullAt, &b.each, &b.until)
		list = append(list, b)
		return err
	}, name, string(names))
	_, err = f.tryOrNote(ctx, "whether the rate of the queue "+name+" or of its groups has tokens left", err)
	return list, err
}

// servedBuckets does so on Redis.
func (f *facts) servedBuckets(ctx context.Context, served queue.Served, name string, groups []string) (list []bucket, err error) {
	found, err := served.Tokens(ctx, name, groups...)
	for _, t := range found {
		b := bucket{group: t.Group, at: t.At.UnixNano(), fullAt: t.Full.UnixNano(), each: int64(t.Each)}
		if !t.Until.IsZero() {
			b.until = t.Until.UnixNano()
		}
		list = append(list, b)
	}
	_, err = f.tryOrNote(ctx, "whether the rate of the queue "+name+" or of its groups has tokens left", err)
	return list, err
}

// tellsRates reports whether the backend tells which rates are used up. If not, it notes that.
func (f *facts) tellsRates(name string) bool {
	_, isServed := queue.As[queue.Served](f.queue)
	if f.server != nil || isServed {
		return true
	}
	f.noteRate(name)
	return false
}

// noteRate notes that the backend does not tell which rates are used up.
func (f *facts) noteRate(name string) {
	note := fmt.Sprintf("whether the rates of the queue %s have tokens left: this backend does not tell", name)
	if !slices.Contains(f.unknown, note) {
		f.unknown = append(f.unknown, note)
	}
}

// groupRate returns the rate of a group of a queue.
func (f *facts) groupRate(name, group string) queue.Rate {
	if own := f.ruleOf(name, group).GroupRate; group != "" && own.Jobs != 0 {
		return own
	}
	return f.ruleOf(name, "").GroupRate
}

// rated returns the rates whose tokens are spent, of the queue and of the job's group.
func (f *facts) rated(ctx context.Context) (reasons []Reason, err error) {
	j := f.job
	rates := map[string]queue.Rate{"": f.rule("").Rate}
	if j.Group != "" {
		rates[j.Group] = f.groupRate(j.Queue, j.Group)
	}
	if rates[""].Jobs <= 0 && rates[j.Group].Jobs <= 0 {
		return nil, nil
	}
	if !f.tellsRates(j.Queue) {
		return nil, nil
	}
	list, err := f.buckets(ctx, j.Queue, "", j.Group)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	before, err := f.before(ctx)
	for _, b := range list {
		if rate := rates[b.group]; rate.Jobs > 0 {
			reasons = append(reasons, f.spent(b, rate, before[b.group])...)
		}
	}
	return reasons, err
}

// before returns how many due jobs take their tokens before the job: of its queue, as "", and of
// each group.
func (f *facts) before(ctx context.Context) (map[string]int, error) {
	n := make(map[string]int)
	if f.job.ScheduledAt.After(f.at) {
		return n, nil
	}
	list, _, _, err := f.dueJobs(ctx, f.job.Queue, f.job)
	for _, d := range list {
		isHandled := func(w queue.WorkerRecord) bool { return handles(w, d.kind) }
		if slices.Contains(f.pauses, d.kind) || len(f.claimers) > 0 && !slices.ContainsFunc(f.claimers, isHandled) {
			continue
		}
		n[""] += d.free
		if d.group != "" {
			n[d.group] += d.free
		}
	}
	return n, err
}

// spent returns the reason if the bucket has too few tokens for the job. before is how many jobs
// take tokens before it.
func (f *facts) spent(b bucket, rate queue.Rate, before int) []Reason {
	whose := "queue " + f.job.Queue
	if b.group != "" {
		whose = fmt.Sprintf("group %q of the queue %s", b.group, f.job.Queue)
	}
	now := f.at.UnixNano()
	if throttled := time.Duration(b.until - now); b.until > 0 && throttled > 0 {
		return []Reason{{ID: "throttled", Level: levelOf(throttled, time.Minute, 24*time.Hour),
			Verdict:  fmt.Sprintf("The %s is throttled for %v more.", whose, short(throttled)),
			Evidence: []string{"a handler has returned queue.Throttled"}, Remedy: "wait: the service that the handler calls has asked for it"}}
	}
	if wait := b.wait(rate, max(f.job.Cost, 1), now); wait > 0 {
		wait += time.Duration(before) * each(rate)
		r := Reason{ID: "queue-rate", Level: levelOf(wait, time.Minute, 24*time.Hour),
			Verdict:  fmt.Sprintf("The rate of the %s is used up. The job may start in %v.", whose, short(wait)),
			Evidence: []string{fmt.Sprintf("the rate is %s in %v", count(rate.Jobs, "job"), plain.Duration(cmp.Or(rate.Per, time.Second)))}, Remedy: raiseLimit + f.raiseRate(b.group, rate)}
		if before > 0 {
			r.Evidence = append(r.Evidence, fmt.Sprintf("%s before it take their tokens first", count(before, "due job")))
		}
		if b.group != "" {
			r.ID = "group-rate"
		}
		return []Reason{r}
	}
	return nil
}

// raiseRate returns the command that doubles a rate of the job's queue, or of its group.
func (f *facts) raiseRate(group string, rate queue.Rate) string {
	name, twice := f.job.Queue, fmt.Sprintf("%d/%v", 2*rate.Jobs, plain.Duration(cmp.Or(rate.Per, time.Second)))
	switch {
	case group == "":
		return f.command("queues", "limit", name, "--rate", twice)
	case f.rule(group).GroupRate.Jobs != 0:
		return f.command("queues", "limit", name, "--group", group, "--group-rate", twice)
	}
	return f.command("queues", "limit", name, "--group-rate", twice)
}

// each returns how long the rate takes to fill in a token.
func each(rate queue.Rate) time.Duration {
	return (cmp.Or(rate.Per, time.Second) + time.Duration(rate.Jobs) - 1) / time.Duration(rate.Jobs)
}

// wait returns how long until the bucket has tokens for a job, as the function bucket_full of the
// schema computes it. Below 0 means that it has.
func (b bucket) wait(rate queue.Rate, cost int, now int64) time.Duration {
	per, each := int64(cmp.Or(rate.Per, time.Second)), int64(each(rate))
	most := int64(cmp.Or(rate.Burst, max(int(int64(rate.Jobs)*int64(100*time.Millisecond)/per), 1)))
	full := b.fullAt
	if b.each != 0 && b.each != each {
		full = b.at + int64(float64(b.fullAt-b.at)/float64(b.each)*float64(each))
	}
	if b.until > 0 {
		full = max(full, b.until+(most-1)*each)
	}
	return time.Duration(full - now - (most-min(int64(cost), most))*each)
}
