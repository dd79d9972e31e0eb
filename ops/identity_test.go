package ops

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestIdentity: what the checks make of what a server says of itself. No test can move a clock, or
// make a server old.
func TestIdentity(t *testing.T) {
	asked := time.Now()
	at := func(ahead, trip time.Duration) identity {
		return identity{asked: asked, replied: asked.Add(trip), clock: asked.Add(trip/2 + ahead)}
	}
	for _, c := range []struct {
		name  string
		look  func(context.Context, *doctor) (finding, error)
		is    identity
		level Level
		value string
	}{
		{"a clock that is right", clock, at(0, 10*time.Millisecond), "", "the server is 0s ahead of this host, ± 5ms"},
		{"a clock that is ahead", clock, at(10*time.Second, 0), Warn, "the server is 10s ahead of this host, ± 0s"},
		{"a clock that is behind", clock, at(-31*time.Second, time.Second), Fail, "the server is 31s behind this host, ± 500ms"},
		{"a clock that may be right", clock, at(1400*time.Millisecond, time.Second), OK, "the server is 1.4s ahead of this host, ± 500ms"},
		{"a standby", writable, identity{isStandby: true, isReadOnly: true}, Fail, "the server is a standby, which only reads"},
		{"a new server", version, identity{version: 170000}, "", "PostgreSQL, maintained until November 2029"},
		{"a server whose releases have ended", version, identity{version: 130000}, Warn, "PostgreSQL, maintained until November 2025"},
		{"an old server", version, identity{version: 120000}, Fail, "PostgreSQL, maintained until November 2024"},
	} {
		f, err := c.look(t.Context(), &doctor{Reader: &Reader{Server: &server{name: "PostgreSQL", identity: c.is}}})
		if err != nil || f.level != c.level || f.value != c.value {
			t.Errorf("%s: got %s, %q, %v, want %s, %q", c.name, f.level, f.value, err, c.level, c.value)
		}
	}
}

// TestSkew: Explain tells of a clock that is wrong for certain.
func TestSkew(t *testing.T) {
	asked := time.Now()
	for ahead, want := range map[time.Duration]string{
		0:                       "",
		1400 * time.Millisecond: "", // half of the answer's second may be it
		time.Minute:             "the database's clock is 1m ahead of that of this host",
		-2 * time.Second:        "the database's clock is 2s behind that of this host",
	} {
		i := identity{asked: asked, replied: asked.Add(time.Second), clock: asked.Add(time.Second/2 + ahead)}
		if got := strings.Join(i.skew(), "\n"); got != want {
			t.Errorf("%v ahead: got %q, want %q", ahead, got, want)
		}
	}
}
