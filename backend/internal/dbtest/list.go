package dbtest

import (
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Pages lists all pages of a filter, and returns the IDs of their jobs. The test fails if the jobs
// are not in order, or the pages do not end.
func Pages(t testing.TB, q driver.Inspector, f queue.Filter) (ids []int64) {
	t.Helper()
	for range 1000 {
		page, next, err := q.Jobs(t.Context(), f)
		if err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
		for _, r := range page {
			if n := len(ids); n > 0 && ids[n-1] <= r.ID {
				t.Fatalf("%+v: job %d follows job %d", f, r.ID, ids[n-1])
			}
			ids = append(ids, r.ID)
		}
		if f.Before = next; next == 0 {
			return ids
		}
	}
	t.Fatalf("%+v: there is no last page, after %d jobs", f, len(ids))
	return nil
}

// Want lists all pages of a filter, and compares the IDs of their jobs.
func Want(t testing.TB, q driver.Inspector, f queue.Filter, want []int64) {
	t.Helper()
	if got := Pages(t, q, f); !slices.Equal(got, want) {
		t.Errorf("%+v: got %d, want %d", f, got, want)
	}
}

// IDs lists jobs with the IDs in pages of each length. Their status is dead, all of one kind.
func IDs(t testing.TB, q driver.Inspector, ids ...int64) {
	t.Helper()
	slices.Sort(ids)
	slices.Reverse(ids)
	for limit := 1; limit <= len(ids)+1; limit++ {
		for _, f := range []queue.Filter{{}, {Status: queue.StatusDead}, {Status: queue.StatusDead, Bare: true}} {
			f.Limit = limit
			Want(t, q, f, ids)
		}
	}
}

// Rare lists the jobs of the kind rare among those with IDs from the highest to the lowest: each
// whose ID is a multiple of every.
func Rare(t testing.TB, q driver.Inspector, highest, lowest, every int64) {
	t.Helper()
	var want []int64
	for id := highest; id >= lowest; id-- {
		if id%every == 0 {
			want = append(want, id)
		}
	}
	Want(t, q, queue.Filter{Kind: "rare"}, want)
	Want(t, q, queue.Filter{Kind: "rare", Limit: 1}, want)
}

// Bounds lists jobs by bounds of less than a microsecond. The jobs 1 to n are dead, and each was
// created and has finished a microsecond after the one before, the first at that time.
func Bounds(t testing.TB, q driver.Inspector, first time.Time, n int64) {
	t.Helper()
	for _, status := range []queue.Status{"", queue.StatusDead} {
		for at := first; at.Before(first.Add(time.Duration(n) * time.Microsecond)); at = at.Add(100 * time.Nanosecond) {
			var before, after []int64
			for id := n; id >= 1; id-- {
				if first.Add(time.Duration(id-1) * time.Microsecond).Before(at) {
					before = append(before, id)
				} else {
					after = append(after, id)
				}
			}
			Want(t, q, queue.Filter{Status: status, CreatedFrom: at}, after)
			Want(t, q, queue.Filter{Status: status, CreatedTo: at}, before)
			Want(t, q, queue.Filter{Status: status, FinishedFrom: at}, after)
			Want(t, q, queue.Filter{Status: status, FinishedTo: at}, before)
		}
	}
}

// Finished lists jobs by bounds of when they have finished, in steps of a second between the times.
// Jobs match by the FinishedAt that they are listed with, be their status in the filter or not.
func Finished(t testing.TB, q driver.Inspector, from, to time.Time) {
	t.Helper()
	for _, status := range []queue.Status{queue.StatusDead, queue.StatusCancelled, queue.StatusCompleted} {
		all, _, err := q.Jobs(t.Context(), queue.Filter{Status: status})
		if err != nil || len(all) == 0 {
			t.Fatalf("%d %s jobs, error %v", len(all), status, err)
		}
		for at := from; at.Before(to); at = at.Add(time.Second) {
			var before, after []int64
			for _, r := range all {
				if r.FinishedAt.Before(at) {
					before = append(before, r.ID)
				} else {
					after = append(after, r.ID)
				}
			}
			for _, f := range []queue.Filter{{Status: status}, {Kind: string(status)}} {
				f.FinishedFrom = at
				Want(t, q, f, after)
				f.FinishedFrom, f.FinishedTo = time.Time{}, at
				Want(t, q, f, before)
			}
		}
	}
}

// Behind lists the job first, of the kind rare, which lies behind 60,000 younger jobs of other
// kinds that have the same status. A page looks at a bounded number of them and says where the next
// one begins; more of them find the job.
func Behind(t testing.TB, q driver.Inspector, status queue.Status, first int64) {
	t.Helper()
	for _, f := range []queue.Filter{{Kind: "rare"}, {Kind: "rare", Queue: "default"}, {Key: "rare"}} {
		f.Status = status
		page, next, err := q.Jobs(t.Context(), f)
		if err != nil || len(page) != 0 || next <= first {
			t.Errorf("%+v: the first page has %d jobs, next %d, error %v; want none yet, and a next", f, len(page), next, err)
		}
		Want(t, q, f, []int64{first})
	}
}
