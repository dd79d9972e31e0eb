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
