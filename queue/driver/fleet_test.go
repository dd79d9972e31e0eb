package driver_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

// TestCompareWorkers: workers that have vanished stand behind the others, the latest first.
func TestCompareWorkers(t *testing.T) {
	now := time.Now()
	record := func(name string, age time.Duration, vanished bool) driver.WorkerRecord {
		return driver.WorkerRecord{WorkerInfo: driver.WorkerInfo{Name: name}, SeenAt: now.Add(-age), Vanished: vanished}
	}
	list := []driver.WorkerRecord{
		record("a", time.Hour, true), record("b", time.Second, false), record("c", time.Minute, true), record("d", 0, false), record("e", 2*time.Minute, true),
	}
	slices.SortStableFunc(list, driver.WorkerRecord.Compare)
	var names []string
	for _, w := range list {
		names = append(names, w.Name)
	}
	if got, want := strings.Join(names, " "), "b d c e a"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
