package limits

import (
	"math"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Bucket is what is stored of the tokens of a rate: that of a queue or of a group. Times are
// nanoseconds since 1970. A bucket that is not stored is full.
type Bucket struct {
	At     int64 // when it was last spent from
	FullAt int64 // when it is full again if nothing is spent
	Each   int64 // how long a token took at At
	Until  int64 // there is no token before; see queue.Throttle
}

// IsFull reports whether that bucket of the queue need not be stored: it is full at the present
// rate, or there is none. A nil Queue has no rates.
func (q *Queue) IsFull(name string, b Bucket, at time.Time) bool {
	now, full := at.UnixNano(), b.Until
	if q != nil {
		if p, ok := q.rateOf(name); ok {
			full = max(full, p.fullAt(b, now))
		}
	}
	return full <= now
}

// Throttled returns the bucket without tokens before that time.
func (b Bucket) Throttled(until time.Time) Bucket {
	b.Until = max(b.Until, until.UnixNano())
	return b
}

const (
	// maxAhead is the longest time, in nanoseconds, after which a bucket is full: 100 years.
	maxAhead = int64(100 * 365 * 24 * time.Hour)
	// gather is how long a worker waits for more tokens than one, while none is lost by waiting.
	gather = int64(20 * time.Millisecond)
)

// pace is a rate as the meter counts it: how long a token takes in nanoseconds, and the burst.
type pace struct{ each, burst int64 }

// paceOf returns the pace of a rate. ok is false if the rate limits nothing.
func paceOf(r queue.Rate) (p pace, ok bool) {
	if r.Jobs <= 0 {
		return p, false
	}
	jobs, per := int64(r.Jobs), int64(r.Per)
	if per == 0 {
		per = int64(time.Second)
	}
	p = pace{each: (per + jobs - 1) / jobs, burst: int64(r.Burst)}
	if p.burst == 0 {
		p.burst = max(jobs*int64(100*time.Millisecond)/per, 1)
	}
	return p, true
}

// Tokens returns how long a token of the rate takes, and how many the burst has. Both are 0 if the
// rate limits nothing.
func Tokens(r queue.Rate) (each time.Duration, burst int64) {
	p, _ := paceOf(r)
	return time.Duration(p.each), p.burst
}

// fullAt returns when the bucket is full at this pace. If the rate has changed since the bucket was
// last spent from, tokens have come at the faster of the two rates. The others come at this one.
func (p pace) fullAt(b Bucket, now int64) int64 {
	full := b.FullAt
	if b.Each > 0 && b.Each != p.each {
		missing := float64(full-b.At)/float64(b.Each) - float64(max(now-b.At, 0))/float64(min(b.Each, p.each))
		full = now + int64(min(max(missing, 0)*float64(p.each), float64(maxAhead)))
	}
	full = max(full, now)
	if b.Until > 0 { // the first token comes at Until
		full = max(full, b.Until+(p.burst-1)*p.each)
	}
	return full
}

// waitFor returns how long until a job of that cost may start, if the bucket is full at full. 0 or
// less means now.
func (p pace) waitFor(cost, full, now int64) int64 {
	return full - now - (p.burst-min(cost, p.burst))*p.each
}

// rateOf returns the pace of the rate of a group, or of the queue for "".
func (q *Queue) rateOf(group string) (p pace, ok bool) {
	if group == "" {
		return paceOf(q.rule.Rate)
	}
	rate := q.rule.GroupRate
	if own := q.groups[group].GroupRate; own.Jobs != 0 {
		rate = own
	}
	return paceOf(rate)
}

// Waits returns what the rates of groups have left at that time, and that of the queue for "". load
// reads a bucket. A nil Queue has no rates.
func (q *Queue) Waits(at time.Time, groups []string, load func(bucket string) (Bucket, error)) (waits []driver.RateWait, err error) {
	if q == nil {
		return nil, nil
	}
	now := at.UnixNano()
	for _, group := range groups {
		p, ok := q.rateOf(group)
		if !ok {
			continue
		}
		b, err := load(group)
		if err != nil {
			return nil, err
		}
		waits = append(waits, driver.RateWait{
			Group:     group,
			Wait:      time.Duration(p.waitFor(1, p.fullAt(b, now), now)),
			Throttled: time.Duration(max(b.Until-now, 0)),
		})
	}
	return waits, nil
}

// hasRates reports whether a rate may limit jobs of the queue.
func (q *Queue) hasRates() bool {
	has := q.rule.Rate.Jobs > 0 || q.rule.GroupRate.Jobs > 0
	for _, r := range q.groups {
		has = has || r.GroupRate.Jobs > 0
	}
	return has
}

// Throttles returns the bucket that a throttled job of the group empties: that of the group, or ""
// for the queue's. ok is false if neither has a rate. A nil Queue has none.
func (q *Queue) Throttles(group string) (bucket string, ok bool) {
	if q == nil {
		return "", false
	}
	if _, ok := q.rateOf(group); ok {
		return group, true
	}
	_, ok = q.rateOf("")
	return "", ok
}

// Meter spends the tokens of one claim in one queue. "" names the queue's own bucket. A nil Meter
// has tokens for everything.
type Meter struct {
	q       *Queue
	now     int64
	load    func(bucket string) (Bucket, error)
	full    map[string]int64 // when the buckets that it has loaded are full
	spent   map[string]bool
	wait    int64 // until there are tokens for the next job; below 0 if there are
	isEmpty bool  // the queue's own bucket has no tokens for the next job
}

// Meter returns a meter for a claim at that time, or nil if the queue has no rates. load reads a
// bucket.
func (q *Queue) Meter(now time.Time, load func(bucket string) (Bucket, error)) *Meter {
	if !q.hasRates() {
		return nil
	}
	return &Meter{q: q, now: now.UnixNano(), load: load, full: make(map[string]int64), spent: make(map[string]bool), wait: -1}
}

// Room returns how many jobs of cost 1 the bucket has tokens for, or Unlimited.
func (m *Meter) Room(bucket string) (int, error) {
	if m == nil {
		return Unlimited, nil
	}
	p, ok := m.q.rateOf(bucket)
	if !ok {
		return Unlimited, nil
	}
	full, err := m.fullAt(bucket, p)
	if err != nil {
		return 0, err
	}
	n := max(m.now+p.burst*p.each-full, 0) / p.each
	if n == 0 {
		m.refuse(bucket, p, 1, full)
	}
	return int(min(n, maxJobs)), nil
}

// Allows reports whether the rates of the queue and of the group let a job of that cost start.
func (m *Meter) Allows(group string, cost int) (bool, error) {
	if m == nil {
		return true, nil
	}
	for _, bucket := range bucketsOf(group) {
		p, ok := m.q.rateOf(bucket)
		if !ok {
			continue
		}
		full, err := m.fullAt(bucket, p)
		if err != nil {
			return false, err
		}
		if p.waitFor(costOf(cost), full, m.now) > 0 {
			m.refuse(bucket, p, costOf(cost), full)
			return false, nil
		}
	}
	return true, nil
}

// Spend spends the tokens of a job of that cost, if the rates let it start, and reports whether
// they do.
func (m *Meter) Spend(group string, cost int) (bool, error) {
	ok, err := m.Allows(group, cost)
	if m == nil || !ok || err != nil {
		return ok, err
	}
	for _, bucket := range bucketsOf(group) {
		if p, ok := m.q.rateOf(bucket); ok {
			m.full[bucket] += min(costOf(cost), (m.now+maxAhead-m.full[bucket])/p.each) * p.each
			m.spent[bucket] = true
			if p.waitFor(1, m.full[bucket], m.now) > 0 { // the next job, if there is one, has to wait
				m.refuse(bucket, p, 1, m.full[bucket])
			}
		}
	}
	return true, nil
}

// IsEmpty reports whether the queue's rate has no tokens for another job.
func (m *Meter) IsEmpty() bool { return m != nil && m.isEmpty }

// Wait returns how long until another job may start where there are no tokens, or less than 0 if
// there are. If waiting for a little longer loses no token, it is longer.
func (m *Meter) Wait() time.Duration {
	if m == nil {
		return -1
	}
	return time.Duration(m.wait)
}

// Spent returns the buckets that have changed.
func (m *Meter) Spent() map[string]Bucket {
	if m == nil {
		return nil
	}
	changed := make(map[string]Bucket, len(m.spent))
	for bucket := range m.spent {
		p, _ := m.q.rateOf(bucket)
		changed[bucket] = Bucket{At: m.now, FullAt: m.full[bucket], Each: p.each}
	}
	return changed
}

func (m *Meter) fullAt(bucket string, p pace) (int64, error) {
	if full, ok := m.full[bucket]; ok {
		return full, nil
	}
	b, err := m.load(bucket)
	if err != nil {
		return 0, err
	}
	m.full[bucket] = p.fullAt(b, m.now)
	return m.full[bucket], nil
}

// refuse notes how long a job of that cost has to wait.
func (m *Meter) refuse(bucket string, p pace, cost, full int64) {
	wait := max(p.waitFor(cost, full, m.now), min(gather, (full-m.now)/2), 1)
	if m.wait < 0 || wait < m.wait {
		m.wait = wait
	}
	m.isEmpty = m.isEmpty || bucket == ""
}

func bucketsOf(group string) []string {
	if group == "" {
		return []string{""}
	}
	return []string{"", group}
}

func costOf(cost int) int64 { return int64(max(min(cost, math.MaxInt32), 1)) }
