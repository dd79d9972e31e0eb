package queue

import (
	"testing"
	"time"
)

// SetZone makes schedules take the zone's data for its name, until the test ends.
func SetZone(t *testing.T, zone *time.Location) {
	zones.Store(zone.String(), zone)
	t.Cleanup(func() { zones.Delete(zone.String()) })
}
