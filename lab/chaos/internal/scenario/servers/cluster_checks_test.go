package servers

import (
	"testing"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/report"
)

// second returns a time.
func second(n int) time.Time { return time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC) }

// TestStartsElsewhere counts no start before or after, in the full master's partition, or in none.
func TestStartsElsewhere(t *testing.T) {
	was := full{from: second(10), until: second(20), of: map[int]bool{0: true, 3: true}}
	partitions := map[int]int{1: 1, 2: 0, 3: 3, 4: 2}
	starts := []ledger.Entry{
		{Number: 1, At: second(9)}, {Number: 1, At: second(20)}, // before and after
		{Number: 2, At: second(15)}, {Number: 3, At: second(15)}, // of the full master
		{Number: 5, At: second(15)}, // of nobody knows which
	}
	if got := was.startsElsewhere(starts, partitions); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
	starts = append(starts, ledger.Entry{Number: 1, At: second(10)}, ledger.Entry{Number: 4, At: second(19)})
	if got := was.startsElsewhere(starts, partitions); got != 2 {
		t.Errorf("got %d, want 2", got)
	}
}

// TestToldAlone counts what near clients were told before the network was healed.
func TestToldAlone(t *testing.T) {
	r := &rift{parted: []audit.Fault{
		{What: isolated, At: second(10), Until: second(20)},
		{What: cutOff, At: second(30), Until: second(40)},
	}}
	refused := func(number, at int) ledger.Entry {
		return ledger.Entry{Number: number, Text: child.Refused + "EOF", At: second(at)}
	}
	book := ledger.Book{
		Acked: map[int]time.Time{nearFirst: second(9), nearFirst + 1: second(20), nearFirst + 2: second(35), 3: second(15)},
		Notes: []ledger.Entry{refused(nearFirst, 9), refused(nearFirst, 20), refused(nearFirst, 35), refused(3, 15)},
	}
	if acked, failed := r.toldAlone(book); acked != 0 || failed != 0 {
		t.Errorf("got %d and %d, want nothing", acked, failed)
	}
	book.Acked[nearFirst+3], book.Notes = second(10), append(book.Notes, refused(nearFirst, 19))
	if acked, failed := r.toldAlone(book); acked != 1 || failed != 1 {
		t.Errorf("got %d and %d, want one each", acked, failed)
	}
}

// TestCheckClock: a clock that did not jump fails, one that jumped and is 1.9 s off does not.
func TestCheckClock(t *testing.T) {
	off := func(by time.Duration) (found []time.Duration) {
		for _, step := range steps {
			found = append(found, step+by)
		}
		return found
	}
	for name, c := range map[string]struct {
		found []time.Duration
		want  bool
	}{
		"as it was set": {off(0), true},
		"a bit slow":    {off(-1900 * time.Millisecond), true},
		"too slow":      {off(-3 * time.Second), false},
		"never jumped":  {make([]time.Duration, len(steps)), false},
		"not asked":     {nil, false},
	} {
		s := &stepped{siege: &siege{h: &harness.Harness{Config: harness.Config{Row: &report.Row{}}}}}
		s.checkClock(c.found)
		if got := s.h.Row.Pass(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestDivide: a job in no partition is neither of the struck ones nor of the others.
func TestDivide(t *testing.T) {
	s := &stepped{siege: &siege{h: &harness.Harness{Config: harness.Config{Seed: 1}}}, struck: map[int]bool{0: true}}
	var book ledger.Book
	book.Acked = make(map[int]time.Time)
	for n := range 9 { // every third is delayed
		book.Acked[n] = second(0)
		book.Notes = append(book.Notes, ledger.Entry{Number: n, Attempt: 1, Text: child.Asked, At: second(0)})
		book.Starts = append(book.Starts, ledger.Entry{Number: n, At: second(0).Add(delays.Delay(1, n))})
	}
	book.Starts = append(book.Starts, ledger.Entry{Number: 4, At: second(9)})
	struck, others, unknown := s.divide(book, map[int]int{0: 0, 1: 0, 3: 1, 4: 1, 6: 1})
	if struck.delayed != 1 || others.delayed != 2 || unknown != 4 {
		t.Errorf("got %d and %d delayed jobs, and %d unknown; want 1, 2 and 4", struck.delayed, others.delayed, unknown)
	}
	if struck.again != 0 || others.again != 1 || others.early != 0 || others.late != 0 {
		t.Errorf("got %+v and %+v, want one job that ran twice, and none early or late", struck, others)
	}
}

func TestIsWithin(t *testing.T) {
	for most, want := range map[int]bool{0: false, 1: true, 20: true, 21: false} {
		if got := isWithin(most, 20); got != want {
			t.Errorf("%d of 20: got %v, want %v", most, got, want)
		}
	}
}
