package schedules

import (
	"testing"
	"time"
)

// TestTimeInZone: times of a schedule are shown in its zone.
func TestTimeInZone(t *testing.T) {
	at := time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC)
	for zone, want := range map[string]string{
		"Europe/Berlin": "2026-01-31T16:00:00+01:00", "": "2026-01-31T15:00:00Z", "No/Where": "2026-01-31T15:00:00Z",
	} {
		if got := timeIn(at, zone); got != want {
			t.Errorf("in %q: %s, want %s", zone, got, want)
		}
	}
}
