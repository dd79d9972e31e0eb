package clockwatch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/internal/clockwatch"
)

// server has a clock that can be set. It answers in the middle of a call.
type server struct {
	clockwatch.Watch
	off time.Duration
}

func (s *server) clock() int64 { return time.Now().Add(s.off).UnixMicro() }

// look lets a call of that length read the clock.
func (s *server) look(call time.Duration) clockwatch.Look {
	l := s.Begin()
	time.Sleep(call / 2)
	at := s.clock()
	time.Sleep(call / 2)
	l, _ = s.Note(l, at)
	return l
}

func TestWatch(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name string
		pass time.Duration // from the first look to the jump, and from there to the second look
		jump time.Duration
		call time.Duration // how long the second look takes
		want []time.Duration
		back bool
	}{
		{"no jump", 4 * time.Second, 0, 10 * ms, nil, false},
		{"within the tolerance", 4 * time.Second, 900 * ms, 10 * ms, nil, false},
		{"back within the tolerance", 4 * time.Second, -900 * ms, 10 * ms, nil, false},
		{"an hour forward", 4 * time.Second, time.Hour, 10 * ms, []time.Duration{time.Hour}, false},
		{"two seconds forward", 4 * time.Second, 2 * time.Second, 10 * ms, []time.Duration{2 * time.Second}, false},
		{"an hour back", 4 * time.Second, -time.Hour, 10 * ms, nil, true},
		{"a slow call", 4 * time.Second, 0, time.Minute, nil, false},
		{"an hour forward, and a slow call", 4 * time.Second, time.Hour, time.Minute, []time.Duration{time.Hour}, false},
		{"an hour back, and a slow call", 4 * time.Second, -time.Hour, time.Minute, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s server
				if l := s.Begin(); l.Latest <= s.clock() || l.Since <= s.clock() {
					t.Errorf("before the first look: got Latest %d, Since %d; want what no clock has reached", l.Latest, l.Since)
				}
				first := s.look(10 * ms)
				time.Sleep(c.pass)
				before := s.clock() // a lease that begins now precedes the jump
				s.off += c.jump
				meets := s.Begin()
				if d := meets.Latest - before; d < 0 || d > 10_000 {
					t.Errorf("Latest of the look that meets the jump: got %d us after the time without it", d)
				}
				after := s.clock() // and one that begins now does not
				time.Sleep(c.pass)
				l := s.look(c.call)
				checkJumps(t, l, before, after, c.call, c.want)
				if moved := l.Since != first.Since; moved != c.back || moved && l.Since < s.clock()-c.call.Microseconds() {
					t.Errorf("Since: got %d after %d, the clock shows %d", l.Since, first.Since, s.clock())
				}
			})
		})
	}
}

// checkJumps demands the jumps, which may seem longer by the time that calls took.
func checkJumps(t *testing.T, l clockwatch.Look, before, after int64, call time.Duration, want []time.Duration) {
	t.Helper()
	if len(l.Jumps) != len(want) {
		t.Fatalf("got jumps %v, want %v", l.Jumps, want)
	}
	for i, j := range l.Jumps {
		if more := time.Duration(j.By)*time.Microsecond - want[i]; more < 0 || more > call+10*time.Millisecond {
			t.Errorf("got a jump by %d us, want %v", j.By, want[i])
		}
		if j.UpTo < before {
			t.Errorf("got UpTo %d, want at least %d", j.UpTo, before)
		}
		if want[i] > call+10*time.Second && j.UpTo >= after {
			t.Errorf("got UpTo %d, want less than %d, which is after the jump", j.UpTo, after)
		}
	}
}

// TestManyJumps: the last eight are kept, each with its own time.
func TestManyJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s server
		s.look(0)
		var l clockwatch.Look
		for i := range 10 {
			time.Sleep(5 * time.Second)
			s.off += time.Duration(i+2) * time.Second
			l = s.look(0)
		}
		if len(l.Jumps) != 8 || l.Jumps[0].By != 4e6 || l.Jumps[7].By != 11e6 {
			t.Errorf("got %v, want the last eight of 2 to 11 s", l.Jumps)
		}
		if !slices.IsSortedFunc(l.Jumps, func(a, b clockwatch.Jump) int { return int(a.UpTo/1e6 - b.UpTo/1e6) }) {
			t.Errorf("got %v, want them in order", l.Jumps)
		}
		time.Sleep(time.Second)
		s.off = -24 * time.Hour
		if l = s.look(0); len(l.Jumps) != 0 {
			t.Errorf("after the clock was set back beyond them: got %v, want none", l.Jumps)
		}
	})
}

// TestConcurrentLooks: two looks that meet a jump note it once.
func TestConcurrentLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s server
		s.look(0)
		time.Sleep(time.Second)
		a, b := s.Begin(), s.Begin()
		s.off = time.Hour
		_, first := s.Note(a, s.clock())
		if l, second := s.Note(b, s.clock()); len(l.Jumps) != 1 || first != time.Hour || second != 0 {
			t.Errorf("got %v, told as %v and %v; want one jump by an hour", l.Jumps, first, second)
		}
	})
}

func TestTexts(t *testing.T) {
	for want, l := range map[[3]string]clockwatch.Look{
		{"{1,3}", "{2,4}", "[[1,2],[3,4]]"}: {Jumps: []clockwatch.Jump{{1, 2}, {3, 4}}},
		{"{}", "{}", "[]"}:                  {},
	} {
		upTo, by := l.Arrays()
		if got := [3]string{upTo, by, l.JSON()}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
