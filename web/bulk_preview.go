package web

import (
	"context"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
)

// bulkPreview shows what an action would act on.
func bulkPreview(q *request) error {
	query := q.URL.Query()
	a, f, err := q.bulkOf(query)
	if err != nil {
		return err
	}
	page := newBulkPage(a, f, query.Has("ticked"))
	age := lateness{}
	if page.IsTicked {
		err = q.h.call(q.Context(), callTimeout, func(ctx context.Context) error { return q.countTicked(ctx, f, page) })
		page.At = q.now
	} else {
		age, err = q.showPreview(f, page)
	}
	if err != nil {
		return err
	}
	v := q.view(page.Title, page)
	v.showAges(age)
	v.rest()
	return q.render("bulk", v)
}

// countTicked finds the jobs that the person has ticked, as far as they still match the filter.
func (q *request) countTicked(ctx context.Context, f queue.Filter, page *bulkPage) error {
	ticked, err := idsIn(q.URL.Query()["job"])
	if err != nil {
		return err
	} else if len(ticked) == 0 {
		return &queue.InvalidError{Field: "Jobs", Problem: "none is ticked; go back and tick some"}
	}
	ids := slices.Sorted(maps.Keys(ticked))
	f.Before, f.Limit, f.NoPayload = beforeOf(ids[len(ids)-1]), maxListed, true
	var found []queue.Record
	for more := true; more; more = f.Before != 0 && f.UpTo() >= ids[0] {
		var jobs []queue.Record
		if jobs, f.Before, err = q.h.source.inspector.Jobs(ctx, f); err != nil {
			return err
		}
		found = append(found, slices.DeleteFunc(jobs, func(r queue.Record) bool { return !ticked[r.ID] })...)
	}
	page.Count, page.Missing, page.Examples = len(found), len(ticked)-len(found), q.jobRows(found)
	var list []int64
	for i, r := range found {
		if i == 0 {
			page.Max = r.ID // they are listed newest first
		}
		list = append(list, r.ID)
	}
	page.IDs = idList(list)
	return nil
}

// preview is the jobs that an action would reach: those that a filter chooses.
type preview struct {
	Count    int // up to maxCounted
	IsMore   bool
	IDs      []int64 // of all of them, if they are maxListed at most
	Examples []queue.Record
	Max      int64 // the highest ID
	Next     int64 // where to look further, if none was found so far; 0 otherwise
}

// showPreview shows the jobs of the filter. Sessions share what is counted.
func (q *request) showPreview(f queue.Filter, page *bulkPage) (lateness, error) {
	r := q.h.samples.previews.of(f).get(q.Context())
	if r.At.IsZero() && r.Err != nil {
		return lateness{}, r.Err
	}
	page.At, page.Count, page.IsMore, page.Max, page.Examples = r.At, r.Value.Count, r.Value.IsMore, r.Value.Max, q.jobRows(r.Value.Examples)
	if r.Value.Next != 0 {
		page.Further = furtherQuery(page, f, r.Value.Next)
	}
	page.IDs = idList(r.Value.IDs)
	return late("Number of jobs", r), nil
}

// idList returns IDs as a form has them.
func idList(ids []int64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(texts, ",")
}

// readPreview counts the jobs of the filter, up to maxCounted, and for about previewTime. If it
// finds none in farTime, the person looks further from there. It reads the examples first: they are
// few, so this does not take long where the jobs lie far from each other.
func (s source) readPreview(ctx context.Context, f queue.Filter) (p preview, err error) {
	f.Limit, f.NoPayload = examples, true
	for began := time.Now(); ; {
		jobs, next, err := s.inspector.Jobs(ctx, f)
		if err != nil {
			return p, err
		}
		if p.Count == 0 && len(jobs) > 0 {
			p.Max, p.Examples = jobs[0].ID, jobs // they are listed newest first
		}
		for i := range jobs {
			p.IDs = append(p.IDs, jobs[i].ID)
		}
		p.Count += len(jobs)
		if next == 0 {
			break
		}
		took := time.Since(began)
		if p.Count == 0 && took > farTime {
			p.IsMore, p.Next = true, next
			break
		}
		if p.Count >= maxCounted || p.Count > 0 && took > previewTime {
			p.IsMore = true
			break
		}
		f.Before, f.Limit, f.Bare = next, maxListed, f.Key == ""
	}
	if p.Count > maxListed || p.IsMore {
		p.IDs = nil
	}
	return p, nil
}

// furtherQuery returns the query of a preview that begins below a job.
func furtherQuery(page *bulkPage, f queue.Filter, before int64) template.URL {
	query := fieldsOf(f)
	query.Set("action", page.Action)
	query.Set("before", strconv.FormatInt(before, 10))
	return template.URL(query.Encode())
}
