package postgres

import (
	"testing"
	"time"
)

// TestRegistrationsOfRestart: a process that has ended does not deregister a worker of the same
// name in the process that follows it.
func TestRegistrationsOfRestart(t *testing.T) {
	var before, after sleepers
	now := time.Now()
	for range 100 {
		before.begin("w", nil, now)
	}
	upTo, _ := before.noteWoken([]string{"w"}, now)
	if number := after.begin("w", nil, now.Add(time.Millisecond)); number <= upTo {
		t.Errorf("the next process registers with number %d, and the last one deregisters up to %d", number, upTo)
	}
}

// TestLooksAgain: a worker looks again while a transaction is open that was open when the worker
// registered, and the less often, the longer this process has known of that transaction. If it has
// been registered since, only those count that were open when it first was.
func TestLooksAgain(t *testing.T) {
	const ended = time.Hour
	var s sleepers
	begun := time.Now()
	for _, c := range []struct {
		after time.Duration
		isNew bool
		open  []string
		want  time.Duration
	}{
		{0, true, []string{"1/1", "2/1"}, shortestLook},
		{time.Millisecond, false, []string{"1/1", "2/1", "3/1"}, shortestLook},
		{400 * time.Millisecond, false, []string{"1/1", "2/1", "3/1"}, 100 * time.Millisecond},
		{400 * time.Millisecond, false, []string{"2/1", "3/1"}, ended},
		{4 * time.Second, true, []string{"2/1"}, longestLook}, // a registration is no reason to look sooner
		{4 * time.Second, true, []string{"2/1", "3/2"}, longestLook},
		{8 * time.Second, false, []string{"3/2", "3/3"}, ended},
		{8 * time.Second, true, []string{"3/2", "3/3"}, -1},
		{30 * time.Second, true, []string{"3/2", "3/4"}, -1},
		{90 * time.Second, true, []string{"3/2", "3/5"}, shortestLook}, // others may have removed it
		{90 * time.Second, false, []string{"3/2"}, ended},
		{91 * time.Second, true, nil, -1},
	} {
		if c.isNew {
			s.begin("w", []string{"q"}, begun.Add(c.after))
		}
		got, hasEnded := s.noteOpen("w", c.open, c.isNew, begun.Add(c.after))
		if hasEnded {
			got = ended
		}
		if got != c.want {
			t.Errorf("%v after the first registration, beside %v: look again after %v, want %v", c.after, c.open, got, c.want)
		}
	}
	s.noteWoken([]string{"w"}, begun)
	if got, hasEnded := s.noteOpen("w", []string{"3/3"}, true, begun); got >= 0 || !hasEnded {
		t.Errorf("a worker that was woken meanwhile looks again after %v, want no time: it claims", got)
	}
}
