package web

import (
	"cmp"
	"slices"

	"github.com/errandhq/errand/queue"
)

// kindsPage is what the page of kinds shows.
type kindsPage struct {
	Kinds    []kindRow
	Jobs     int // how many jobs were looked at
	CanPause bool
	HasStats bool // of the last hour
	Failures failureList
}

// kindRow is a kind in a table, with how many of the newest jobs have which status.
type kindRow struct {
	Name     string
	Total    int
	Jobs     []statusCount
	IsPaused bool
	Stats    kindStats

	counts map[queue.Status]int
}

// kinds shows the kinds of the newest jobs: no index leads to all kinds of a long table.
func kinds(q *request) error {
	s, ctx := q.h.samples, q.Context()
	newestOfAll, errors := s.lists.of(queue.Filter{Limit: newestJobs, Bare: true}), s.failures.of("")
	begin(newestOfAll, s.paused, errors, s.hourKinds)
	newest, paused := newestOfAll.get(ctx), s.paused.get(ctx)
	byName := make(map[string]*kindRow)
	row := func(name string) *kindRow {
		if byName[name] == nil {
			byName[name] = &kindRow{Name: name, counts: make(map[queue.Status]int)}
		}
		return byName[name]
	}
	for i := range newest.Value.Jobs {
		r := &newest.Value.Jobs[i]
		row(r.Kind).counts[r.Status]++
		row(r.Kind).Total++
	}
	for _, kind := range paused.Value {
		row(kind).IsPaused = true
	}
	hour := s.hourKinds.get(ctx)
	for _, s := range hour.Value {
		row(s.Kind).Stats = kindStatsOf(s.Stats)
	}
	failed := errors.get(ctx)
	page := kindsPage{HasStats: !hour.At.IsZero(), Jobs: len(newest.Value.Jobs), CanPause: q.h.source.pauser != nil && !paused.At.IsZero(), Failures: q.failures("", failed)}
	for _, k := range byName {
		for _, status := range statuses {
			text := ""
			if n := k.counts[status]; n > 0 {
				text = number(n)
			}
			k.Jobs = append(k.Jobs, statusCount{status, text})
		}
		page.Kinds = append(page.Kinds, *k)
	}
	slices.SortFunc(page.Kinds, func(a, b kindRow) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name)) })
	tidyCounts(page.Kinds, !newest.At.IsZero(), func(row *kindRow) *[]statusCount { return &row.Jobs })
	v := q.view("Kinds", page)
	v.showAges(late("Kinds", newest), late("Paused kinds", paused), late("Statistics", hour),
		late("Errors", failed))
	return q.render("kinds", v)
}
