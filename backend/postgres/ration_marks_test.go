package postgres

import (
	"testing"
	"time"
)

// TestStretchesDoNotOverlap: if a mark has gone back, jobs found before it are in one stretch only.
// In two, they would fill the limit of a claim twice.
func TestStretchesDoNotOverlap(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	m := mark{position: position{due: at(10), id: 5}}
	p := newProgress([]mark{m})
	p.found = &part{mark: m, stretch: stretch{queue: "default", until: at(20)}}
	var got []time.Time
	for _, s := range p.stretches([]string{"default"}) {
		if s.from.priority == 0 && s.last == 0 && s.from.due.IsZero() {
			got = append(got, s.until)
		}
	}
	if len(got) != 1 || !got[0].Equal(at(10)) {
		t.Errorf("the stretch before the mark ends at %v, want %v", got, at(10))
	}
	p.marks[0].position = headOf(0)
	if n := len(p.stretches([]string{"default"})); n != 3 {
		t.Errorf("a mark at the head: %d stretches, want 3: before, in and behind its priority", n)
	}
}
