package doctor

import (
	"context"
	"testing"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
)

// TestIdentity: what the checks make of what a server says of itself. No test can move a clock, or
// make a server old.
func TestIdentity(t *testing.T) {
	asked := time.Now()
	at := func(ahead, trip time.Duration) reader.Identity {
		return reader.Identity{Asked: asked, Replied: asked.Add(trip), Clock: asked.Add(trip/2 + ahead)}
	}
	for _, c := range []struct {
		name  string
		look  func(context.Context, *doctor) (finding, error)
		is    reader.Identity
		level ops.Level
		value string
	}{
		{"a clock that is right", clock, at(0, 10*time.Millisecond), "", "the server is 0s ahead of this host, ± 5ms"},
		{"a clock that is ahead", clock, at(10*time.Second, 0), ops.Warn, "the server is 10s ahead of this host, ± 0s"},
		{"a clock that is behind", clock, at(-31*time.Second, time.Second), ops.Fail, "the server is 31s behind this host, ± 500ms"},
		{"a clock that may be right", clock, at(1400*time.Millisecond, time.Second), ops.OK, "the server is 1.4s ahead of this host, ± 500ms"},
		{"a standby", writable, reader.Identity{IsStandby: true, IsReadOnly: true}, ops.Fail, "the server is a standby, which only reads"},
		{"a new server", version, reader.Identity{Version: 170000}, "", "PostgreSQL, maintained until November 2029"},
		{"a server whose releases have ended", version, reader.Identity{Version: 130000}, ops.Warn, "PostgreSQL, maintained until November 2025"},
		{"an old server", version, reader.Identity{Version: 120000}, ops.Fail, "PostgreSQL, maintained until November 2024"},
	} {
		f, err := c.look(t.Context(), &doctor{Reader: &reader.Reader{Server: &reader.Server{Name: "PostgreSQL", Identity: c.is}}})
		if err != nil || f.level != c.level || f.value != c.value {
			t.Errorf("%s: got %s, %q, %v, want %s, %q", c.name, f.level, f.value, err, c.level, c.value)
		}
	}
}
