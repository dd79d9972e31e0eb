package postgres

import (
	"math"
	"testing"
	"time"
)

// TestSpansDoNotOverlap: if a mark has gone back, jobs found before it are in one span only. In
// two, they would fill the limit of a claim twice.
func TestSpansDoNotOverlap(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	var p progress
	for _, c := range []struct {
		mark position
		want time.Time
	}{
		{position{due: at(10), id: math.MinInt64}, at(10).Add(-time.Microsecond)},
		{position{due: at(10), id: 5}, at(10)}, // jobs with lower IDs may be due then
		{position{due: at(30), id: 5}, at(20)},
	} {
		m := mark{position: c.mark}
		p = newProgress([]mark{m}, false)
		p.knownClaimable = &skippedSpan{mark: m, span: span{queue: "default", until: at(20)}}
		var got []time.Time
		for _, s := range p.spans([]string{"default"}) {
			if s.from.priority == 0 && s.last == 0 && s.from.due.IsZero() {
				got = append(got, s.until)
			}
		}
		if len(got) != 1 || !got[0].Equal(c.want) {
			t.Errorf("before the mark %+v: the span ends at %v, want %v", c.mark, got, c.want)
		}
	}
	p.marks[0].position = headOf(0)
	if n := len(p.spans([]string{"default"})); n != 3 {
		t.Errorf("a mark at the head: %d spans, want 3: before, in and behind its priority", n)
	}
}

// TestSlowScansAreSeldom: after a scan that took long, of dead rows and not of jobs, the next one
// waits until enough claims have found jobs, or until longestUnseen, also after a notification.
func TestSlowScansAreSeldom(t *testing.T) {
	for name, c := range map[string]struct {
		then func(s *skipped)
		want bool
	}{
		"at once":                 {func(*skipped) {}, false},
		"after fewer claims":      {func(s *skipped) { s.claims = claimsBetween - 1 }, false},
		"after enough claims":     {func(s *skipped) { s.claims = claimsBetween }, true},
		"after some time":         {func(s *skipped) { s.ended = s.ended.Add(-longestUnseen) }, true},
		"if jobs took the time":   {func(s *skipped) { s.account(slowScan, skippedAtOnce) }, true},
		"if it was not that slow": {func(s *skipped) { s.account(slowScan-1, 0) }, true},
	} {
		p := newProgress([]mark{{position: headOf(0)}}, false)
		p.skipped.account(slowScan, 0)
		c.then(&p.skipped)
		for _, credit := range []*time.Duration{&p.skipped.credit, &p.skipped.notifiedCredit} {
			p.skipped.credit, p.skipped.notifiedCredit = -time.Hour, -time.Hour
			*credit = 0
			if _, ok := p.nextSkipped([]string{"default"}, 1, true); ok != c.want {
				t.Errorf("%s: it may scan: %v, want %v", name, ok, c.want)
			}
		}
	}
}

// TestSlowListIsSeldom: slow claims list the priorities each second, but a list that takes long is
// made as seldom as slow scans.
func TestSlowListIsSeldom(t *testing.T) {
	for _, c := range []struct{ took, ago time.Duration }{{slowScan - 1, probeEvery}, {slowScan, longestUnseen}} {
		var p progress
		p.noteListed(c.took)
		p.listAgain = p.listAgain.Add(-c.ago + time.Second/2)
		if p.shouldListPriorities(slowClaim, 0) {
			t.Errorf("%v after a list that took %v, there is another", c.ago-time.Second/2, c.took)
		}
		p.listAgain = p.listAgain.Add(-time.Second / 2)
		if !p.shouldListPriorities(slowClaim, 0) {
			t.Errorf("%v after a list that took %v, there is none", c.ago, c.took)
		}
	}
}

// TestBusyServerEndsRations: a round may be cheap although the server was busy, and each scan took
// some milliseconds. Then the server is asked, at most once in longestUnseen.
func TestBusyServerEndsRations(t *testing.T) {
	only := mark{position: headOf(0)}
	r := ration{progress: newProgress([]mark{only}, false)}
	for range 4 {
		r.progress.roundTrips.add(slowClaim/10, 0)
	}
	for took, want := range map[time.Duration]roundState{slowScan: roundIsCheap, 2 * slowScan: roundIsOver} {
		r.progress.skipped.account(took, 0)
		if got := r.progress.moveOn(skippedSpan{mark: only}, scanResult{claimable: headOf(0)}); got != want {
			t.Errorf("after a scan of %v: %v, want %v", took, got, want)
		}
	}
	r.progress.roundTrips.add(slowScan, 0) // one that took as long
	r.progress.skipped.account(3*slowScan/2, 0)
	if got := r.progress.moveOn(skippedSpan{mark: only}, scanResult{claimable: headOf(0)}); got != roundIsCheap {
		t.Errorf("after a scan that took little longer than a round trip: %v, want %v", got, roundIsCheap)
	}
	if !r.shouldProbeAgain() || r.shouldProbeAgain() {
		t.Error("want one probe at once, and no second one")
	}
}
