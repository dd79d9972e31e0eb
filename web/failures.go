package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
)

// Failures by their error.
//
//   - Problem: a hundred failed jobs often have two causes. No index leads to errors, and their
//     texts differ in names and numbers.
//   - Rule: look at the newest dead jobs, and at the newest jobs that wait for another attempt.
//     Jobs of one kind are in one group if the first lines of their last errors are equal without
//     what differs.
//   - Bounds: failedJobs of each sort, read in at most callTimeout for all sessions. The page says
//     how far it has looked.

const (
	failedJobs   = 1000 // of each sort, that are looked at
	shownGroups  = 20
	groupedBytes = 500 // of the first line of an error, that tell one group from another
)

// failures are the newest failures, in groups, the largest first.
type failures struct {
	Groups []failureGroup // shownGroups at most
	More   int            // how many further groups there are
	Jobs   int            // how many jobs have failed, of those that were looked at
	// Jobs with lower IDs were not looked at; 0 if there are none.
	DeadNext, WaitingNext int64
}

// failureGroup is jobs of one kind whose last errors differ only in values.
type failureGroup struct {
	Dead, Waiting int
	Newest        queue.Record // the job that has failed last
}

// readFailures reads the newest failures of a kind, or of all kinds if it is "".
func (s source) readFailures(ctx context.Context, kind string) (f failures, err error) {
	groups := make(map[string]*failureGroup)
	read := func(filter queue.Filter) (next int64, err error) {
		filter.Kind, filter.Limit, filter.NoPayload = kind, failedJobs, true
		jobs, next, err := s.inspector.Jobs(ctx, filter)
		for i := range jobs {
			if jobs[i].LastError != "" {
				f.Jobs++
				groupOf(groups, &jobs[i]).add(&jobs[i])
			}
		}
		return next, err
	}
	if f.DeadNext, err = read(queue.Filter{Status: queue.StatusDead}); err != nil {
		return f, err
	}
	if f.WaitingNext, err = read(queue.Filter{Status: queue.StatusPending, MinAttempts: 1}); err != nil {
		return f, err
	}
	for _, g := range groups {
		f.Groups = append(f.Groups, *g)
	}
	slices.SortFunc(f.Groups, func(a, b failureGroup) int {
		return cmp.Or(cmp.Compare(b.Dead+b.Waiting, a.Dead+a.Waiting), failedAt(&b.Newest).Compare(failedAt(&a.Newest)), cmp.Compare(b.Newest.ID, a.Newest.ID))
	})
	f.More = max(0, len(f.Groups)-shownGroups)
	f.Groups = f.Groups[:len(f.Groups)-f.More]
	return f, nil
}

// groupOf returns the group of a job that has failed.
func groupOf(groups map[string]*failureGroup, r *queue.Record) *failureGroup {
	line, _, _ := strings.Cut(r.LastError, "\n")
	key := r.Kind + "\n" + maskError(cutBytes(line, groupedBytes))
	if groups[key] == nil {
		groups[key] = new(failureGroup)
	}
	return groups[key]
}

func (g *failureGroup) add(r *queue.Record) {
	if r.Status == queue.StatusDead {
		g.Dead++
	} else {
		g.Waiting++
	}
	if g.Newest.ID == 0 || failedAt(r).After(failedAt(&g.Newest)) {
		g.Newest = *r
	}
}

// failedAt returns when a job has failed.
func failedAt(r *queue.Record) time.Time {
	if !r.FinishedAt.IsZero() {
		return r.FinishedAt
	}
	return r.UpdatedAt
}

// failureList is what a page shows of failures.
type failureList struct {
	IsKnown bool
	HasKind bool // the rows are of several kinds
	Rows    []failureRow
	Note    string // how far was looked
}

// failureRow is a group of failures in a table.
type failureRow struct {
	Kind   string
	Error  string // of the newest job, as the person may see it, one line
	Dead   string // how many jobs; "" for none
	Wait   string
	Newest int64 // the ID of the newest job
	At     time.Time
}

// failures returns what a page shows of the failures of a kind, or of all kinds if it is "".
func (q *request) failures(kind string, r reading[failures]) failureList {
	f := r.Value
	list := failureList{IsKnown: !r.At.IsZero(), HasKind: kind == ""}
	for _, g := range f.Groups {
		text, _, _ := strings.Cut(q.shown(Value{Kind: g.Newest.Kind, Field: FieldError, Text: g.Newest.LastError}), "\n")
		list.Rows = append(list.Rows, failureRow{
			Kind: g.Newest.Kind, Error: cut(text, 160), Dead: countOrNone(g.Dead), Wait: countOrNone(g.Waiting),
			Newest: g.Newest.ID, At: failedAt(&g.Newest),
		})
	}
	list.Note = failuresNote(f)
	return list
}

func countOrNone(n int) string {
	if n == 0 {
		return ""
	}
	return number(n)
}

// failuresNote says what the table of failures shows, and what it leaves out.
func failuresNote(f failures) string {
	note := fmt.Sprintf("Jobs that are dead or wait for another attempt, by their last error: %s.", plural(int64(f.Jobs), "job"))
	if f.DeadNext > 0 {
		note += fmt.Sprintf(" Dead jobs older than #%d were not looked at.", f.DeadNext)
	}
	if f.WaitingNext > 0 {
		note += fmt.Sprintf(" Waiting jobs older than #%d were not looked at.", f.WaitingNext)
	}
	if f.More > 0 {
		note += fmt.Sprintf(" Not shown: %s of fewer jobs.", plural(int64(f.More), "error"))
	}
	return note
}
