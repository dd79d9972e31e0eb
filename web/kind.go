package web

import (
	"slices"

	"github.com/errandhq/errand/queue"
)

// newestOfKind is how many jobs the page of a kind lists.
const newestOfKind = 10

// kindView is what the page of a kind shows.
type kindView struct {
	Name     string
	IsPaused bool
	CanPause bool
	Chart    *chart // nil if the backend keeps no statistics
	Times    []kindTimes
	Failures failureList
	Jobs     []jobRow // the newest ones
}

// kindTimes are percentiles of the last hour, in words.
type kindTimes struct{ Title, P50, P95, P99 string }

func kindPage(q *request) error {
	name, err := nameIn(q.PathValue("kind"))
	if err != nil {
		return err
	}
	if err := (queue.StatsFilter{Kind: name}).Check(); err != nil {
		return errNotFound // no job can have this kind
	}
	s, ctx := q.h.samples, q.Context()
	hours, errors, jobs := s.kindHours.of(name), s.failures.of(name), s.lists.of(queue.Filter{Kind: name, Limit: newestOfKind})
	begin(s.paused, jobs, errors, hours, s.hourKinds)
	paused, hour, times, failed, newest := s.paused.get(ctx), hours.get(ctx), s.hourKinds.get(ctx), errors.get(ctx), jobs.get(ctx)
	page := kindView{
		Name: name, IsPaused: slices.Contains(paused.Value, name), CanPause: q.h.source.pauser != nil && !paused.At.IsZero(),
		Chart: newChart(hour, q.now), Failures: q.failures(name, failed), Jobs: q.jobRows(newest.Value.Jobs),
	}
	for _, record := range times.Value {
		if record.Kind == name {
			page.Times = timesOf(record.Stats)
		}
	}
	v := q.view("Kind "+name, page)
	v.showAges(late("Paused kinds", paused), late("Statistics", hour),
		late("Run times", times), late("Errors", failed), late("Jobs", newest))
	return q.render("kind", v)
}

// timesOf returns the percentiles of run and wait times; nil if there were no runs.
func timesOf(s queue.Stats) []kindTimes {
	row := func(title string, h queue.Histogram) kindTimes {
		return kindTimes{title, duration(h.Quantile(0.5)), duration(h.Quantile(0.95)), duration(h.Quantile(0.99))}
	}
	if s.RunTimes.Count() == 0 || s.WaitTimes.Count() == 0 {
		return nil
	}
	return []kindTimes{row("Run time", s.RunTimes), row("Waiting time", s.WaitTimes)}
}
