package web

import (
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
)

// jobsPage is what the list of jobs shows.
type jobsPage struct {
	Filter   queue.Filter
	Running  string // Filter.RunningFor as it was typed
	Statuses []queue.Status
	IsNarrow bool // the filter is not empty
	Problem  string
	Jobs     []jobRow
	Range    string       // which IDs were looked at, if not all of them are listed
	First    template.URL // the query of the first page; "" on it
	Next     template.URL // the query of the next page; "" on the last
	Fields   []field      // the filter, as a form has it
	Bulk     []bulkLink
	// NeedsStatus says that actions on many jobs need a filter by status.
	NeedsStatus bool
}

// jobRow is a job in a table.
type jobRow struct {
	queue.Record
	Error string // as the person may see it, one line
	Due   string // what When is: due, started or ended
	When  time.Time
}

// bulkLink leads to the preview of an action on all jobs that the filter chooses. In a form it
// leads to that on those that are ticked.
type bulkLink struct {
	Name, Title, Button string
	Query               template.URL
}

func jobs(q *request) error {
	query := q.URL.Query()
	f, err := filterOf(query)
	page := jobsPage{Filter: f, Running: query.Get("for"), Statuses: statuses}
	v := q.view("Jobs", &page)
	if err != nil {
		page.Problem, _ = explainError(err)
		v.Every = 0
		return q.render("jobs", v)
	}
	list := q.h.samples.lists.of(f).get(q.Context())
	v.showAges(late("Jobs", list))
	page.Jobs = q.jobRows(list.Value.Jobs)
	fields := fieldsOf(f)
	page.IsNarrow = len(fields) > 0
	if f.Before != 0 {
		page.First = template.URL("?" + fields.Encode())
		v.rest() // a page in the middle stays as it is while somebody reads it
	}
	if next := list.Value.Next; next != 0 {
		older := fieldsOf(f)
		older.Set("before", strconv.FormatInt(next, 10))
		page.Next = template.URL("?" + older.Encode())
		if len(page.Jobs) < f.Limit {
			page.Range = rangeText(f, next, len(page.Jobs))
		}
	}
	if q.may(Operate | Bulk) {
		page.Bulk, page.Fields = q.bulkLinks(f), formFields(f)
		page.NeedsStatus = f.Status == ""
	}
	return q.render("jobs", v)
}

// rangeText says which jobs were looked at, where the filter has no index.
func rangeText(f queue.Filter, next int64, found int) string {
	top := "the newest job"
	if f.Before != 0 {
		top = "job " + strconv.FormatInt(f.UpTo(), 10)
	}
	last := next
	if next < 0 { // see queue.Filter.Next
		last++
	}
	return "Looked at jobs from " + top + " down to " + strconv.FormatInt(last, 10) + ": " + strconv.Itoa(found) + " found. Older ones may follow."
}

// filterOf returns the filter that a page's address names.
func filterOf(query url.Values) (f queue.Filter, err error) {
	f = queue.Filter{
		Queue: query.Get("queue"), Kind: query.Get("kind"), Status: queue.Status(query.Get("status")),
		Key: query.Get("key"), Group: query.Get("group"), Expired: query.Get("expired") != "", Limit: pageSize,
	}
	if f.MinAttempts, err = numberIn[int](query, "attempts"); err != nil {
		return f, err
	}
	if f.Before, err = beforeIn(query); err != nil {
		return f, err
	}
	if text := strings.TrimSpace(query.Get("for")); text != "" {
		if f.RunningFor, err = time.ParseDuration(text); err != nil || f.RunningFor <= 0 { // 0 would mean all jobs
			return f, &queue.InvalidError{Field: "Running for", Problem: "not a time such as 90s, 10m or 2h"}
		}
	}
	return f.Checked()
}

// numberIn returns the number of a field; 0 if the field is empty.
func numberIn[T int | int64](query url.Values, field string) (T, error) {
	text := strings.TrimSpace(query.Get(field))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || int64(T(n)) != n {
		return 0, &queue.InvalidError{Field: field, Problem: "not a number from 0"}
	}
	return T(n), nil
}

// beforeIn returns the Before of a page or of a step: 0 if the field is empty. It is below 0 where
// SQL has written jobs with such IDs.
func beforeIn(query url.Values) (int64, error) {
	text := strings.TrimSpace(query.Get("before"))
	if text == "" {
		return 0, nil
	}
	before, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, &queue.InvalidError{Field: "before", Problem: "not a whole number"}
	}
	return before, nil
}

// beforeOf returns the Before of a page that begins with the job that has the ID.
func beforeOf(id int64) int64 {
	if id < 0 { // see queue.Filter.Next
		return id
	}
	return id + 1
}

// fieldsOf returns the fields of an address that names the filter, without the page.
func fieldsOf(f queue.Filter) url.Values {
	query := make(url.Values)
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("queue", f.Queue)
	set("kind", f.Kind)
	set("key", f.Key)
	set("group", f.Group)
	set("status", string(f.Status))
	if f.MinAttempts > 0 {
		set("attempts", strconv.Itoa(f.MinAttempts))
	}
	if f.Expired {
		set("expired", "1")
	}
	if f.RunningFor > 0 {
		set("for", f.RunningFor.String())
	}
	return query
}

// jobRows returns the rows of a table.
func (q *request) jobRows(records []queue.Record) []jobRow {
	rows := make([]jobRow, len(records))
	for i, r := range records {
		text, _, _ := strings.Cut(q.shown(Value{Kind: r.Kind, Field: FieldError, Text: r.LastError}), "\n")
		rows[i] = jobRow{Record: r, Error: cut(text, 160)}
		switch {
		case !r.FinishedAt.IsZero():
			rows[i].Due, rows[i].When = "ended", r.FinishedAt
		case r.Status == queue.StatusRunning:
			rows[i].Due, rows[i].When = "started", r.StartedAt
		case r.Status == queue.StatusPending:
			rows[i].Due, rows[i].When = "due", r.ScheduledAt
		default:
			rows[i].Due, rows[i].When = "changed", r.UpdatedAt
		}
	}
	return rows
}

// bulkLinks returns the actions that make sense for a filter. Without a filter there are none: a
// wrong click must not cancel all jobs.
func (q *request) bulkLinks(f queue.Filter) (links []bulkLink) {
	if len(fieldsOf(f)) == 0 {
		return nil
	}
	for _, a := range bulkActions {
		if !a.isThere(q.h.source) || !q.may(a.need) || !slices.Contains(a.statuses, f.Status) {
			continue
		}
		query := fieldsOf(f)
		query.Set("action", a.name)
		links = append(links, bulkLink{a.name, a.title, a.button, template.URL(query.Encode())})
	}
	return links
}
