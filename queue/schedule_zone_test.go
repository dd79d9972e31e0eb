package queue_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestScheduleZones: zones that a host may have, but that are not the same on every machine, are
// refused, and the error does not advise to import them.
func TestScheduleZones(t *testing.T) {
	check := func(zone string) error {
		return driver.CheckSchedules(0, queue.Schedule{Name: "s", Spec: "@daily", Zone: zone, Job: &queue.Job{Kind: "k"}})
	}
	for _, zone := range []string{
		"Local", "localtime", "LOCALTIME", "./localtime", "posixrules", "Factory", "right/UTC", "right/Europe/Berlin", "posix/UTC",
		"posix//UTC", "Europe//Berlin",
	} {
		var invalid *queue.InvalidError
		err := check(zone)
		switch {
		case !errors.As(err, &invalid) || invalid.Field != "Schedule.Zone" || !strings.Contains(err.Error(), `of "s": `+zone+" is not the same zone"):
			t.Errorf("zone %q: got error %v", zone, err)
		case strings.Count(err.Error(), "Schedule.Zone") != 1 || strings.Contains(err.Error(), "tzdata"):
			t.Errorf("zone %q: the error is nested, or advises to import the zone: %v", zone, err)
		}
	}
	for _, zone := range []string{"", "UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"} {
		if err := check(zone); err != nil {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
	if err := check("Mars/Phobos"); err == nil || !strings.Contains(err.Error(), "look how it is spelt") || strings.Contains(err.Error(), "tzdata") {
		t.Errorf("an unknown zone: got error %v", err)
	}
}
