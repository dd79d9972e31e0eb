package ops

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

// bucket holds the tokens of a rate. Times are nanoseconds since 1970. See the table tokens.
type bucket struct {
	group                   string
	at, fullAt, each, until int64
}

// rated returns the rates whose tokens are spent, of the queue and of the job's group.
func (f *facts) rated(ctx context.Context) (reasons []Reason, err error) {
	j := f.job
	of := f.rule("").GroupRate
	if own := f.rule(j.Group).GroupRate; j.Group != "" && own.Jobs != 0 {
		of = own
	}
	rates := map[string]queue.Rate{"": f.rule("").Rate}
	if j.Group != "" {
		rates[j.Group] = of
	}
	if rates[""].Jobs <= 0 && of.Jobs <= 0 {
		return nil, nil
	}
	if f.server == nil {
		f.unknown = append(f.unknown, "whether the rate of the queue or the group has tokens left")
		return nil, nil
	}
	err = f.server.rows(ctx, "tokens", func(r *sql.Rows) error {
		var b bucket
		err := r.Scan(&b.group, &b.at, &b.fullAt, &b.each, &b.until)
		if rate := rates[b.group]; err == nil && rate.Jobs > 0 {
			reasons = append(reasons, f.spent(b, rate)...)
		}
		return err
	}, j.Queue, j.Group)
	if ok, err := f.tryOrNote(ctx, "whether the rate has tokens left", err); !ok {
		return nil, err
	}
	return reasons, nil
}

// spent returns the reason if the bucket has too few tokens for the job.
func (f *facts) spent(b bucket, rate queue.Rate) []Reason {
	whose := "queue " + f.job.Queue
	if b.group != "" {
		whose = fmt.Sprintf("group %q of the queue %s", b.group, f.job.Queue)
	}
	now := f.at.UnixNano()
	if throttled := time.Duration(b.until - now); b.until > 0 && throttled > 0 {
		return []Reason{{ID: "throttled", Level: levelOf(throttled, time.Minute, 24*time.Hour), Verdict: fmt.Sprintf("The %s is throttled for %v more.", whose, short(throttled)),
			Evidence: []string{"a handler has answered queue.Throttled"}, Remedy: "wait: the other side has asked for it"}}
	}
	if wait := b.wait(rate, max(f.job.Cost, 1), now); wait > 0 {
		r := Reason{ID: "queue-rate", Level: levelOf(wait, time.Minute, 24*time.Hour), Verdict: fmt.Sprintf("The rate of the %s is used up: the next token comes in %v.", whose, short(wait)),
			Evidence: []string{fmt.Sprintf("%d jobs may start in %v", rate.Jobs, cmp.Or(rate.Per, time.Second))}, Remedy: "wait, or raise the rate in the rule"}
		if b.group != "" {
			r.ID = "group-rate"
		}
		return []Reason{r}
	}
	return nil
}

// wait returns how long until the bucket has tokens for a job, as the function bucket_full of the
// schema computes it. Below 0 means that it has.
func (b bucket) wait(rate queue.Rate, cost int, now int64) time.Duration {
	per := int64(cmp.Or(rate.Per, time.Second))
	each := (per + int64(rate.Jobs) - 1) / int64(rate.Jobs)
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
