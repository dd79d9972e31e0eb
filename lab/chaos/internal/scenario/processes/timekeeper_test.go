package processes

import (
	"testing"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/report"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func atSecond(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

func entryOf(number, attempt int, worker string, second float64, text string) ledger.Entry {
	return ledger.Entry{Number: number, Attempt: attempt, Worker: worker, At: atSecond(second), Text: text}
}

// punctualTimekeeper has three jobs without errors: 10 fails and is retried after a second, 9 is
// due later, and a killed worker holds 4.
func punctualTimekeeper() *timekeeper {
	h := &harness.Harness{Config: harness.Config{Seed: 1, Short: true, Row: &report.Row{}}}
	h.RecordFault(audit.Fault{Worker: "w1.1", Held: []peer.Job{{Number: 4, Attempt: 1}}})
	delay := later.Delay(1, 9).Seconds()
	return &timekeeper{
		harness: h,
		due:     map[int]time.Time{4: atSecond(0), 9: atSecond(0.1 + delay), 10: atSecond(2)},
		book: ledger.Book{
			Acked: map[int]time.Time{4: atSecond(0.2), 9: atSecond(0.2), 10: atSecond(0.2)},
			Starts: []ledger.Entry{
				entryOf(10, 1, "w1.1", 0.5, ""), entryOf(4, 1, "w1.1", 0.5, ""), entryOf(9, 1, "w2.1", 0.2+delay, ""),
				entryOf(10, 2, "w2.1", 2, ""), entryOf(4, 2, "w2.1", 7, ""),
			},
			Notes: []ledger.Entry{
				entryOf(4, 1, "e1.1", 0, child.Asked), entryOf(9, 2, "e1.1", 0, child.Asked), entryOf(10, 1, "w1.1", 1, child.Erred),
			},
		},
	}
}

func TestPunctual(t *testing.T) {
	k := punctualTimekeeper()
	k.gather()
	reclaimed, retries := k.falseReclaims()
	if early, late := k.early(), k.late(); len(early) != 0 || len(late) != 0 || len(reclaimed) != 0 || retries != 1 {
		t.Errorf("got early %v, late %v, reclaimed %v, %d retries; want 1 retry", early, late, reclaimed, retries)
	}
}

func TestUnpunctual(t *testing.T) {
	for name, c := range map[string]struct {
		change                 func(*timekeeper)
		early, late, reclaimed int
	}{
		"before its delay was over":  {func(k *timekeeper) { k.book.Starts[2].At = atSecond(0.9) }, 1, 0, 0},
		"before the table says":      {func(k *timekeeper) { k.due[4] = atSecond(7.1) }, 1, 0, 0},
		"tried again too soon":       {func(k *timekeeper) { k.book.Starts[3].At = atSecond(1.9); k.due[10] = atSecond(1.5) }, 1, 0, 0},
		"tried again too late":       {func(k *timekeeper) { k.book.Starts[3].At = atSecond(5.1) }, 0, 1, 0},
		"an hour late":               {func(k *timekeeper) { k.book.Starts[2].At = atSecond(3600) }, 0, 1, 0},
		"reclaimed without a reason": {func(k *timekeeper) { k.book.Starts = append(k.book.Starts, entryOf(9, 2, "w3.1", 8, "")) }, 0, 0, 1},
	} {
		k := punctualTimekeeper()
		c.change(k)
		k.gather()
		early, late := k.early(), k.late()
		if reclaimed, _ := k.falseReclaims(); len(early) != c.early || len(late) != c.late || len(reclaimed) != c.reclaimed {
			t.Errorf("%s: got early %v, late %v, reclaimed %v; want %d, %d, %d", name, early, late, reclaimed, c.early, c.late, c.reclaimed)
		}
	}
}

// TestTaken: a worker has lost a job that it is told to have lost, unless it had ended that run
// itself.
func TestTaken(t *testing.T) {
	k := punctualTimekeeper()
	k.book.Effects = []ledger.Entry{entryOf(9, 1, "w2.1", 5, "")}
	k.book.Notes = append(k.book.Notes,
		entryOf(9, 1, "w2.1", 5.1, child.Lost), entryOf(10, 1, "w1.1", 1.1, child.Lost), // has settled them
		entryOf(9, 1, "w3.1", 5.1, child.Lost), entryOf(10, 2, "w2.1", 3, child.Lost), // has not
	)
	if n := k.lost(); n != 2 {
		t.Errorf("got %d jobs taken, want 2", n)
	}
}
