package web

import (
	"context"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Acting on many jobs.
//
//   - Problem: between the moment when a person looks at a list and the moment when the form
//     arrives, jobs come, end and change. The action must not reach jobs that the person has not
//     been shown, nor only those of one page.
//   - Rule: the preview freezes what was shown: the filter, and the highest ID that matched. Up to
//     maxListed jobs, or of those that the person has ticked, the form has their IDs, too. Above
//     that the person types how many there were. Each step lists the next jobs of the frozen filter
//     and acts on their IDs, but on none that the form should have and has not. What has changed
//     meanwhile is skipped and counted.
//   - Bounds: bulkBatch jobs a statement, bulkTime a request. The answer then is a page with a
//     button that goes on from there.

const (
	maxListed  = 1000
	bulkBatch  = 1000
	bulkTime   = 2 * time.Second
	maxCounted = 10_000 // jobs that a preview counts
	// previewLongest is how old a preview may be: a person acts on it.
	previewLongest = time.Minute
	// previewTime is how long a preview counts, and farTime how long it looks for the first job, so
	// that its page does not take long.
	previewTime = 150 * time.Millisecond
	farTime     = 200 * time.Millisecond
	examples    = 10
)

// bulkAction is something that can be done to many jobs.
type bulkAction struct {
	name, title, button string
	statuses            []queue.Status // on which it acts
	isThere             func(source) bool
	do                  func(context.Context, source, queue.DB, queue.Selection) (int, error)
	need                Permission // besides Operate and Bulk
}

var bulkActions = []bulkAction{
	{
		name: "redrive", title: "Retry all", button: "Retry",
		statuses: driver.Redrivable(),
		isThere:  func(s source) bool { return s.editor != nil },
		do: func(ctx context.Context, s source, db queue.DB, which queue.Selection) (int, error) {
			return s.editor.Redrive(ctx, db, which)
		},
	},
	{
		name: "cancel", title: "Cancel all", button: "Cancel",
		statuses: driver.Cancellable(),
		isThere:  func(s source) bool { return s.canceller != nil },
		do: func(ctx context.Context, s source, db queue.DB, which queue.Selection) (int, error) {
			return s.canceller.Cancel(ctx, db, which)
		},
	},
	{
		name: "run", title: "Run all now", button: "Run now",
		statuses: []queue.Status{queue.StatusPending},
		isThere:  func(s source) bool { return s.editor != nil },
		do: func(ctx context.Context, s source, db queue.DB, which queue.Selection) (int, error) {
			return s.editor.Edit(ctx, db, which, queue.JobChange{RunNow: true})
		},
	},
	{
		name: "delete", title: "Delete all", button: "Delete", need: Edit,
		statuses: []queue.Status{queue.StatusDead, queue.StatusCancelled, queue.StatusHeld, queue.StatusPending, queue.StatusCompleted},
		isThere:  func(s source) bool { return s.editor != nil },
		do: func(ctx context.Context, s source, db queue.DB, which queue.Selection) (int, error) {
			return s.editor.Delete(ctx, db, which)
		},
	},
}

// bulkPage is what the preview of an action, and its progress, show.
type bulkPage struct {
	Title    string
	Action   string // its name
	Button   string
	Filter   []field
	Count    int
	IsMore   bool         // there are more than Count
	At       time.Time    // when they were counted; zero if that is not known yet
	Further  template.URL // the query of the preview that looks further, if this one has found none
	Examples []jobRow
	IDs      string       // of all jobs, if there are few; otherwise ""
	Max      int64        // the highest ID
	Back     template.URL // the query of the list
	IsTicked bool         // the person has ticked the jobs
	Missing  int          // how many of these do not match any more

	Changed, Skipped int   // so far
	Before           int64 // where to go on; 0: it is done
	IsProgress       bool
	Reason           string // of the steps so far
}

// field is a part of a filter, as a form has it.
type field struct{ Name, Value string }

// bulkOf returns the action that a form or an address names, and its filter.
func (q *request) bulkOf(query url.Values) (bulkAction, queue.Filter, error) {
	i := slices.IndexFunc(bulkActions, func(a bulkAction) bool { return a.name == query.Get("action") })
	if i < 0 || !bulkActions[i].isThere(q.h.source) || !q.may(bulkActions[i].need) {
		return bulkAction{}, queue.Filter{}, &queue.InvalidError{Field: "action", Problem: "there is no such action"}
	}
	f, err := filterOf(query)
	if err != nil {
		return bulkAction{}, f, err
	}
	if !slices.Contains(bulkActions[i].statuses, f.Status) {
		return bulkAction{}, f, &queue.InvalidError{Field: "status", Problem: "the action does not act on jobs of this status"}
	}
	return bulkActions[i], f, nil
}

// newBulkPage returns what the preview and the progress have in common.
func newBulkPage(a bulkAction, f queue.Filter, isTicked bool) *bulkPage {
	f.Before = 0
	page := &bulkPage{
		Title: a.title, Action: a.name, Button: a.button, Filter: formFields(f), IsTicked: isTicked,
		Back: template.URL(fieldsOf(f).Encode()),
	}
	if isTicked {
		page.Title = a.button
	}
	return page
}

// formFields returns the filter as a form has it.
func formFields(f queue.Filter) (all []field) {
	fields := fieldsOf(f)
	for _, name := range []string{"status", "queue", "kind", "group", "key", "attempts", "expired", "for"} {
		if value := fields.Get(name); value != "" {
			all = append(all, field{name, value})
		}
	}
	return all
}

// bulk acts on the jobs that a preview has shown, for bulkTime at most.
func bulk(q *request) error {
	if err := q.ParseForm(); err != nil {
		return err
	}
	a, f, err := q.bulkOf(q.PostForm)
	if err != nil {
		return err
	}
	page := newBulkPage(a, f, q.PostForm.Has("ticked"))
	page.IsProgress, page.IDs, page.Reason = true, q.PostForm.Get("ids"), q.reason()
	if page.Max, err = strconv.ParseInt(q.PostForm.Get("max"), 10, 64); err != nil {
		return &queue.InvalidError{Field: "max", Problem: "not the ID of a job"}
	}
	if page.Changed, err = numberIn[int](q.PostForm, "changed"); err != nil {
		return err
	}
	if page.Skipped, err = numberIn[int](q.PostForm, "skipped"); err != nil {
		return err
	}
	if page.Count, err = numberIn[int](q.PostForm, "count"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(q.Context(), actionTimeout)
	defer cancel()
	err = q.bulkStep(ctx, page, a, f)
	q.h.actions.Add(1)
	q.log("jobs."+a.name, fieldsOf(f).Encode()+" id<="+strconv.FormatInt(page.Max, 10), page.Changed, err)
	if err != nil {
		return err
	}
	v := q.view(page.Title, page)
	v.Every = 0
	return q.render("bulk", v)
}

// listedIn returns the IDs that the form names; nil if it names none.
func (q *request) listedIn() (map[int64]bool, error) {
	list := q.PostForm.Get("ids")
	if list == "" {
		return nil, nil
	}
	return idsIn(strings.Split(list, ","))
}

// idsIn returns the IDs of a form, of which there are at most maxListed.
func idsIn(texts []string) (map[int64]bool, error) {
	ids := make(map[int64]bool)
	for _, text := range texts {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || len(ids) == maxListed {
			return nil, &queue.InvalidError{Field: "ids", Problem: "not a list of at most " + strconv.Itoa(maxListed) + " IDs"}
		}
		ids[id] = true
	}
	return ids, nil
}

// batch acts on some jobs, in one transaction with its audit entry.
func (q *request) batch(ctx context.Context, page *bulkPage, a bulkAction, f queue.Filter, ids []int64) error {
	f.Before = 0
	target := fieldsOf(f).Encode() + " ids=" + strconv.FormatInt(slices.Min(ids), 10) + ".." + strconv.FormatInt(slices.Max(ids), 10)
	n, err := q.h.audited(ctx, q.entry("jobs."+a.name, target), func(ctx context.Context, db queue.DB) (int, error) {
		return a.do(ctx, q.h.source, db, which(f, ids))
	})
	if err != nil {
		return err
	}
	page.Changed += n
	page.Skipped += len(ids) - n
	return nil
}

// which chooses jobs by ID that still have what the filter says.
func which(f queue.Filter, ids []int64) queue.Selection {
	return queue.Selection{IDs: ids, Queue: f.Queue, Kind: f.Kind, Group: f.Group, Key: f.Key, Status: f.Status}
}

// bulkStep acts on jobs of the filter up to the highest ID that was shown, the newest first, until
// bulkTime is over.
func (q *request) bulkStep(ctx context.Context, page *bulkPage, a bulkAction, f queue.Filter) error {
	before, listed, err := q.bulkStart(page)
	if err != nil {
		return err
	}
	f.Limit, f.Bare, f.NoPayload = bulkBatch, f.Key == "", true
	lowest := int64(math.MaxInt64)
	for id := range listed {
		lowest = min(lowest, id)
	}
	for began := time.Now(); ; {
		f.Before = before
		jobs, next, err := q.h.source.inspector.Jobs(ctx, f)
		if err != nil {
			return err
		}
		var ids []int64
		for i := range jobs {
			if listed == nil || listed[jobs[i].ID] {
				ids = append(ids, jobs[i].ID)
			}
		}
		if len(ids) > 0 {
			if err := q.batch(ctx, page, a, f, ids); err != nil {
				return err
			}
		}
		if f.Before = next; f.UpTo() < lowest && listed != nil {
			next = 0 // no listed job is further down
		}
		before, page.Before = next, next
		if next == 0 && listed != nil {
			page.Skipped = len(listed) - page.Changed
		}
		if next == 0 || time.Since(began) > bulkTime {
			return nil
		}
	}
}

// bulkStart returns where a step begins, and the jobs that the form names.
func (q *request) bulkStart(page *bulkPage) (before int64, listed map[int64]bool, err error) {
	if listed, err = q.listedIn(); err != nil {
		return 0, nil, err
	}
	if before, err = beforeIn(q.PostForm); err != nil {
		return 0, nil, err
	}
	if goesOn := (queue.Filter{Before: before}); before != 0 && goesOn.UpTo() < page.Max {
		return before, listed, nil
	} else if before != 0 {
		return beforeOf(page.Max), listed, nil
	}
	typed := strings.NewReplacer(",", "", " ", "", "+", "").Replace(q.PostForm.Get("typed"))
	if listed == nil && typed != strconv.Itoa(page.Count) {
		return 0, nil, &queue.InvalidError{Field: "the number of jobs", Problem: "not the number that the page has shown; nothing was changed"}
	}
	return beforeOf(page.Max), listed, nil
}
