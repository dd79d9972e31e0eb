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
	count := q.count
	if page.IsTicked {
		count = q.countTicked
	}
	err = q.h.call(q.Context(), callTimeout, func(ctx context.Context) error { return count(ctx, f, page) })
	if err != nil {
		return err
	}
	v := q.view(page.Title, page)
	v.Every = 0
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
	var list []string
	for i, r := range found {
		if i == 0 {
			page.Max = r.ID // they are listed newest first
		}
		list = append(list, strconv.FormatInt(r.ID, 10))
	}
	page.IDs = strings.Join(list, ",")
	return nil
}

// count counts the jobs of the filter, up to maxCounted, and for about previewTime. If it finds none
// in farTime, the person looks further from there.
func (q *request) count(ctx context.Context, f queue.Filter, page *bulkPage) error {
	var ids []string
	f.Limit, f.Bare = maxListed, f.Key == ""
	for began := time.Now(); ; {
		jobs, next, err := q.h.source.inspector.Jobs(ctx, f)
		if err != nil {
			return err
		}
		for i := range jobs {
			ids = append(ids, strconv.FormatInt(jobs[i].ID, 10))
		}
		if page.Count == 0 && len(jobs) > 0 {
			page.Max = jobs[0].ID // they are listed newest first
			if err := q.showExamples(ctx, page, jobs[:min(len(jobs), examples)]); err != nil {
				return err
			}
		}
		page.Count += len(jobs)
		if next == 0 {
			break
		}
		took := time.Since(began)
		if page.Count == 0 && took > farTime {
			page.IsMore, page.Further = true, furtherQuery(page, f, next)
			break
		}
		if page.Count >= maxCounted || page.Count > 0 && took > previewTime {
			page.IsMore = true
			break
		}
		f.Before = next
	}
	if page.Count <= maxListed && !page.IsMore {
		page.IDs = strings.Join(ids, ",")
	}
	return nil
}

// furtherQuery returns the query of a preview that begins below a job.
func furtherQuery(page *bulkPage, f queue.Filter, before int64) template.URL {
	query := fieldsOf(f)
	query.Set("action", page.Action)
	query.Set("before", strconv.FormatInt(before, 10))
	return template.URL(query.Encode())
}

// showExamples adds jobs to the page, with what a list without texts leaves out.
func (q *request) showExamples(ctx context.Context, page *bulkPage, jobs []queue.Record) error {
	for _, j := range jobs {
		r, ok, err := q.h.source.inspector.Job(ctx, j.ID)
		if err != nil {
			return err
		}
		if ok {
			page.Examples = append(page.Examples, q.jobRows([]queue.Record{r})...)
		}
	}
	return nil
}
