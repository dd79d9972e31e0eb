package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

// TestFind: in a table of ten million jobs find reads the windows in which the times are, and no
// others.
func TestFind(t *testing.T) {
	const total, window = 10_000_000, 50_000
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	created := func(id int64) time.Time { return began.Add(time.Duration(id) * time.Second) }
	windows, probes := 0, 0
	look := func(_ context.Context, f queue.Filter) (page []queue.Record, next int64, err error) {
		if f.Before == 0 {
			f.Before = total + 1
		}
		if f.Limit == 1 && !f.HasTimes() {
			probes++
		} else {
			windows++
		}
		for id := f.Before - 1; id > max(0, f.Before-1-window); id-- {
			r := queue.Record{Job: queue.Job{ID: id, CreatedAt: created(id)}, Status: queue.StatusCompleted}
			if !f.CreatedFrom.IsZero() && r.CreatedAt.Before(f.CreatedFrom) || !f.CreatedTo.IsZero() && !r.CreatedAt.Before(f.CreatedTo) {
				continue
			}
			if page = append(page, r); len(page) == f.Limit {
				return page, id, nil
			}
		}
		return page, max(0, f.Before-window), nil
	}
	for _, c := range []struct {
		name               string
		filter             queue.Filter
		first, last        int64
		maxWindows, probes int
	}{
		{"the newest", queue.Filter{CreatedFrom: created(total - 9)}, total, total - 9, 1, 1},
		{"long ago", queue.Filter{CreatedFrom: created(1000), CreatedTo: created(1010)}, 1009, 1000, 2, 15},
		{"in the middle", queue.Filter{CreatedFrom: created(5_000_000), CreatedTo: created(5_000_010)}, 5_000_009, 5_000_000, 2, 15},
		{"up to now", queue.Filter{CreatedTo: created(total + 100), Limit: 10}, total, total - 9, 1, 1},
	} {
		windows, probes = 0, 0
		c.filter.Status = queue.StatusCompleted
		if c.filter.Limit == 0 {
			c.filter.Limit = 100
		}
		list, _, err := find(t.Context(), look, c.filter, maxWindows)
		if err != nil || len(list) != 10 || list[0].ID != c.first || list[9].ID != c.last {
			t.Errorf("%s: got %d jobs, %v", c.name, len(list), err)
			continue
		}
		if windows > c.maxWindows || probes > c.probes {
			t.Errorf("%s: read %d windows and %d single jobs, want %d and %d at most", c.name, windows, probes, c.maxWindows, c.probes)
		}
	}
}

// TestFindFails: with an error find returns what it has found, and where it has stopped.
func TestFindFails(t *testing.T) {
	failure := errors.New("the server has ended the statement")
	look := func(_ context.Context, f queue.Filter) ([]queue.Record, int64, error) {
		if f.Before == 100 {
			return nil, 0, failure
		}
		return []queue.Record{{Job: queue.Job{ID: 120}}}, 100, nil
	}
	list, next, err := find(t.Context(), look, queue.Filter{Limit: 50}, maxWindows)
	if !errors.Is(err, failure) || len(list) != 1 || next != 100 {
		t.Errorf("got %d jobs, then %d, %v", len(list), next, err)
	}
}
