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
				wantSince := first.Since
				for _, j := range l.Jumps {
					wantSince += j.By
				}
				if moved := l.Since != wantSince; moved != c.back || moved && l.Since < s.clock()-c.call.Microseconds() {
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

// TestCorrectedJumps: a jump back takes away as much of the jumps forward before it, the last one
// first. A jump forward moves Since as well: leases that began in the future go on for as long.
func TestCorrectedJumps(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name  string
		jumps []time.Duration
		want  []int64 // seconds
		since int64   // seconds from the first look, without the 5 s that pass before each jump
	}{
		{"corrected", []time.Duration{3600 * s, -3600 * s}, []int64{}, 0},
		{"corrected in part", []time.Duration{3600 * s, -3000 * s}, []int64{600}, 600},
		{"corrected too far", []time.Duration{3600 * s, -7200 * s}, []int64{}, -3600},
		{"corrected twice", []time.Duration{3600 * s, -600 * s, -600 * s}, []int64{2400}, 2400},
		{"the last of two", []time.Duration{3600 * s, 600 * s, -600 * s}, []int64{3600}, 3600},
		{"more than the last of two", []time.Duration{3600 * s, 600 * s, -1000 * s}, []int64{3200}, 3200},
		{"back, and forward again", []time.Duration{-3600 * s, 1800 * s}, []int64{1800}, -1800},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at server
				start := at.look(0).Since
				var l clockwatch.Look
				passed := int64(0) // until the last jump back
				for i, by := range c.jumps {
					time.Sleep(5 * time.Second)
					at.off += by
					if l = at.look(0); by < 0 {
						passed = int64(i+1) * 5
					}
				}
				got := []int64{}
				for _, j := range l.Jumps {
					got = append(got, j.By/1e6)
				}
				if since := (l.Since-start)/1e6 - passed; !slices.Equal(got, c.want) || since != c.since {
					t.Errorf("got jumps by %v and Since %d s, want %v and %d s", got, since, c.want, c.since)
				}
			})
		})
	}
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

// TestConcurrentLooksApart: a jump comes between the readings of two looks, and the one that has
// not met it is noted first. The other one goes by the jump, and the next look notes it.
func TestConcurrentLooksApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s server
		s.look(0)
		time.Sleep(time.Second)
		a, b := s.Begin(), s.Begin()
		s.Note(b, s.clock())
		s.off = time.Hour
		if l, jump := s.Note(a, s.clock()); len(l.Jumps) != 1 || l.Jumps[0].By != time.Hour.Microseconds() || jump != 0 {
			t.Errorf("got %v, told as %v; want one by an hour that is not told", l.Jumps, jump)
		}
		if l := s.look(0); len(l.Jumps) != 1 || l.Jumps[0].By != time.Hour.Microseconds() {
			t.Errorf("at the next look: got %v, want one jump by an hour", l.Jumps)
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
