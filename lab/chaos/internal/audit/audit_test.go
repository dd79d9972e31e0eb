package audit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at returns a time this many seconds after noon.
func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func entry(number, attempt int, worker string, seconds float64) ledger.Entry {
	return ledger.Entry{Number: number, Attempt: attempt, Worker: worker, At: at(seconds)}
}

func done(number, attempt int, seconds float64) peer.Job {
	return peer.Job{Number: number, State: peer.Ended, Attempt: attempt, EndedAt: at(seconds)}
}

// evidence returns evidence of jobs 1 to n, all done without a fault.
func evidence(n int) Evidence {
	e := Evidence{Book: ledger.Book{Acked: make(map[int]time.Time)}}
	for i := 1; i <= n; i++ {
		e.Book.Acked[i] = at(0)
		e.Book.Starts = append(e.Book.Starts, entry(i, 1, "a", 1))
		e.Book.Effects = append(e.Book.Effects, entry(i, 1, "a", 2))
		e.Jobs = append(e.Jobs, done(i, 1, 3))
	}
	return e
}

func TestNothingHappened(t *testing.T) {
	f := Audit(evidence(3))
	if f.Acked != 3 || len(f.Lost) != 0 || len(f.Ghosts) != 0 || f.Dup != 0 || f.Bound != 0 || len(f.Unexplained) != 0 || f.Repeated != 0 || f.Rerun != 0 {
		t.Errorf("got %+v, want 3 acked and nothing else", f)
	}
}

func TestLost(t *testing.T) {
	noEffect := func(e *Evidence) { e.Book.Effects = e.Book.Effects[1:] }
	state := func(s peer.State, reason string) func(*Evidence) {
		return func(e *Evidence) { e.Jobs[0].State, e.Jobs[0].Reason = s, reason }
	}
	gone := func(e *Evidence) { e.Jobs = e.Jobs[1:] }
	for name, c := range map[string]struct {
		change []func(*Evidence)
		want   string // lost and open
	}{
		"gone without a trace":          {[]func(*Evidence){noEffect, gone}, "[1: neither in the table nor in the ledger] []"},
		"done and not kept":             {[]func(*Evidence){gone}, "[] []"},
		"never run, though done":        {[]func(*Evidence){noEffect}, "[1: done, says the table, but it had no effect] []"},
		"waiting at the end":            {[]func(*Evidence){noEffect, state(peer.Waiting, "")}, "[] [1: still waiting after attempt 1]"},
		"running at the end":            {[]func(*Evidence){noEffect, state(peer.Running, "")}, "[] [1: still running after attempt 1]"},
		"an effect, but never settled":  {[]func(*Evidence){state(peer.Running, "")}, "[] [1: still running after attempt 1]"},
		"dead with a reason":            {[]func(*Evidence){noEffect, state(peer.GivenUp, "lease expired")}, "[] []"},
		"dead without a reason":         {[]func(*Evidence){noEffect, state(peer.GivenUp, "")}, "[1: dead without a reason] []"},
		"not acknowledged and not done": {[]func(*Evidence){noEffect, state(peer.Waiting, ""), func(e *Evidence) { delete(e.Book.Acked, 1) }}, "[] []"},
	} {
		e := evidence(2)
		for _, change := range c.change {
			change(&e)
		}
		f := Audit(e)
		if got := fmt.Sprint(f.Lost, f.Open); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// TestMayLose: jobs that a standby had not received may be lost, and no others.
func TestMayLose(t *testing.T) {
	e := evidence(4)
	e.MayLose = map[int]bool{1: true, 2: true, 3: true}
	e.MayLose[9] = true // was never acknowledged
	e.Jobs = e.Jobs[2:]
	e.Book.Effects = []ledger.Entry{entry(2, 1, "a", 2), entry(3, 1, "a", 2), entry(9, 1, "a", 2)}
	f := Audit(e)
	missed, lost := "[1: neither in the table nor in the ledger]", "[4: done, says the table, but it had no effect]"
	if fmt.Sprint(f.Missed) != missed || fmt.Sprint(f.Lost) != lost || len(f.Ghosts) > 0 {
		t.Errorf("got missed %v, lost %v, ghosts %v; want 1, 4 and none", f.Missed, f.Lost, f.Ghosts)
	}
}

func TestGhosts(t *testing.T) {
	e := evidence(1)
	e.Book.Effects = append(e.Book.Effects, entry(7, 1, "a", 2), entry(8, 1, "a", 2))
	e.Jobs = append(e.Jobs, done(8, 1, 3)) // written, though not acknowledged
	if f := Audit(e); !slices.Equal(f.Ghosts, []int{7}) {
		t.Errorf("got %v, want 7", f.Ghosts)
	}
}

// killed returns evidence in which worker a is killed at second 2.5. It holds job 1, which it has
// started, and job 2, which it has not. Worker b runs both.
func killed() Evidence {
	e := evidence(3)
	e.Book.Starts = []ledger.Entry{entry(1, 1, "a", 1), entry(3, 1, "a", 1), entry(1, 2, "b", 5), entry(2, 2, "b", 6.5)}
	e.Book.Effects = []ledger.Entry{entry(3, 1, "a", 2), entry(1, 2, "b", 7), entry(2, 2, "b", 7)}
	e.Jobs = []peer.Job{done(1, 2, 7), done(2, 2, 7), done(3, 1, 2.2)}
	e.Faults = []Fault{{At: at(2.5), Worker: "a", Held: []peer.Job{{Number: 1, Attempt: 1}, {Number: 2, Attempt: 1}}}}
	return e
}

func TestDuplicatesOfAKill(t *testing.T) {
	f := Audit(killed())
	if f.Dup != 1 || f.Bound != 1 || len(f.Unexplained) != 0 || f.Repeated != 0 || len(f.Lost) != 0 {
		t.Errorf("got %+v, want one duplicate, of the one that was open", f)
	}
	if f.Rerun != 4*time.Second || f.Slowest != 2 {
		t.Errorf("rerun: got %v of job %d, want 4s of job 2, which had not been started", f.Rerun, f.Slowest)
	}
}

func TestDuplicateThatNoFaultExplains(t *testing.T) {
	e := killed()
	e.Book.Starts = append(e.Book.Starts, entry(3, 2, "b", 8))
	e.Book.Effects = append(e.Book.Effects, entry(3, 2, "b", 9))
	f := Audit(e)
	if f.Dup != 2 || f.Bound != 1 || f.Repeated != 1 || len(f.Unexplained) != 1 || f.Unexplained[0].Number != 3 {
		t.Errorf("got %+v, want 2 duplicates, and that of job 3 not explained", f)
	}
}

func TestRunHeldByTwoKilledInTurn(t *testing.T) {
	e := killed()
	e.Faults = append(e.Faults, Fault{At: at(5.5), Worker: "b", Held: []peer.Job{{Number: 1, Attempt: 2}}})
	e.Book.Starts = append(e.Book.Starts, entry(1, 3, "c", 9))
	f := Audit(e)
	if f.Dup != 2 || f.Bound != 2 || len(f.Unexplained) != 0 {
		t.Errorf("got %+v, want 2 duplicates of 2", f)
	}
	if f.Rerun != 4*time.Second {
		t.Errorf("rerun: got %v, want 4s", f.Rerun)
	}
}

// TestReleasedRun: a frozen worker releases a job, which costs no attempt, so the job runs again
// with the same one. Each fault explains one of these runs.
func TestReleasedRun(t *testing.T) {
	freeze := func(second float64) Fault {
		return Fault{At: at(second), Looked: at(second + 0.1), Worker: "a", Held: []peer.Job{{Number: 1, Attempt: 1}}}
	}
	for name, c := range map[string]struct {
		faults             []Fault
		bound, unexplained int
	}{
		"each frozen":            {[]Fault{freeze(1.5), freeze(5.5)}, 2, 0},
		"frozen as they begin":   {[]Fault{freeze(0.99), freeze(4.99)}, 2, 0}, // the starts were on their way to the ledger
		"frozen before it began": {[]Fault{freeze(0.5), freeze(5.5)}, 2, 0},   // and began when it was thawed
		"the first frozen twice": {[]Fault{freeze(1.5), freeze(1.7)}, 1, 1},
		"the second frozen":      {[]Fault{freeze(5.5)}, 1, 1},
	} {
		e := evidence(2)
		e.Book.Starts = append(e.Book.Starts, entry(1, 1, "a", 5), entry(1, 1, "b", 9))
		e.Faults = c.faults
		if f := Audit(e); f.Dup != 2 || f.Bound != c.bound || len(f.Unexplained) != c.unexplained {
			t.Errorf("%s: got %d duplicates, bound %d, %d unexplained; want 2, %d and %d", name, f.Dup, f.Bound, len(f.Unexplained), c.bound, c.unexplained)
		}
	}
}

// TestRerunEndsWithTheNextHolder: the second holder of a job is killed before it starts the job.
// The wait for the first one has ended all the same.
func TestRerunEndsWithTheNextHolder(t *testing.T) {
	e := killed()
	e.Book.Starts[3] = entry(2, 3, "c", 9)
	e.Faults = append(e.Faults, Fault{At: at(5.5), Worker: "b", Held: []peer.Job{{Number: 2, Attempt: 2}}})
	if got := Audit(e).Rerun; got != 3500*time.Millisecond {
		t.Errorf("got %v, want 3.5s", got)
	}
}

func TestOpenWhenTheServerWasKilled(t *testing.T) {
	e := evidence(6)
	e.Book.Starts = []ledger.Entry{
		entry(1, 1, "a", 1), entry(2, 1, "a", 1), entry(3, 1, "a", 4), entry(4, 1, "a", 6), entry(5, 1, "a", 1), entry(5, 2, "a", 2), entry(6, 1, "a", 1),
	}
	e.Jobs = []peer.Job{
		done(1, 1, 2),   // ended before: closed
		done(2, 1, 5.5), // settled afterwards: open
		done(3, 1, 6),   // started while the server was away: open
		done(4, 1, 7),   // started afterwards: closed
		done(5, 2, 7),   // its second run is open, its first is not
		{Number: 6, State: peer.Running, Attempt: 1},
	}
	e.Faults = []Fault{{At: at(3), Until: at(5)}}
	if f := Audit(e); f.Bound != 4 {
		t.Errorf("got %d, want 4: jobs 2, 3, 5 and 6", f.Bound)
	}
}

func TestRecovery(t *testing.T) {
	var effects []ledger.Entry
	for i := range 1000 { // 100 a second, none from second 4 to 6
		if s := float64(i) / 100; s < 4 || s >= 6 {
			effects = append(effects, entry(i, 1, "a", s))
		}
	}
	if got := Rate(effects, at(1), at(3)); got != 100 {
		t.Errorf("rate before: got %v, want 100", got)
	}
	if got := Rate(effects, at(3), at(5)); got != 50 {
		t.Errorf("rate across: got %v, want 50", got)
	}
	got := Recovery(effects, 100, at(4))
	if want := 1800 * time.Millisecond; got < want-step || got > want+step { // 0.8 of the second that begins then
		t.Errorf("recovery: got %v, want about %v", got, want)
	}
	if got := Recovery(effects, 200, at(4)); got != at(9.99).Sub(at(4)) {
		t.Errorf("recovery of a rate that never was: got %v, want until the end", got)
	}
	if got := Recovery(nil, 100, at(4)); got != 0 {
		t.Errorf("recovery without effects: got %v", got)
	}
}

// TestRerunOfTheFourthAttempt: the fourth attempt is counted apart.
func TestRerunOfTheFourthAttempt(t *testing.T) {
	e := killed()
	e.Book.Starts[0].Attempt, e.Book.Starts[2].Attempt, e.Faults[0].Held[0].Attempt = 4, 5, 4
	if f := Audit(e); f.Again != 2500*time.Millisecond || f.Rerun != 4*time.Second || f.Slowest != 2 {
		t.Errorf("got %v, and %v of job %d; want 2.5s, and 4s of job 2", f.Again, f.Rerun, f.Slowest)
	}
}

// TestUnknownIsNoGhost: a job of a failed call may have been written.
func TestUnknownIsNoGhost(t *testing.T) {
	e := evidence(2)
	delete(e.Book.Acked, 1)
	e.Jobs = e.Jobs[1:]
	if got := Audit(e).Ghosts; !slices.Equal(got, []int{1}) {
		t.Errorf("got ghosts %v, want 1", got)
	}
	e.Unknown = map[int]bool{1: true}
	if got := Audit(e).Ghosts; len(got) > 0 {
		t.Errorf("got ghosts %v, want none", got)
	}
}
