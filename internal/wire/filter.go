package wire

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/errandhq/errand/queue"
)

// Param is a parameter of the query of a list of jobs.
type Param struct {
	Name string
	get  func(f *queue.Filter) string // "" for the zero value
	set  func(f *queue.Filter, value string) error
}

// Params are the parameters for the fields of a [queue.Filter].
var Params = []Param{
	text("queue", func(f *queue.Filter) *string { return &f.Queue }),
	text("kind", func(f *queue.Filter) *string { return &f.Kind }),
	text("status", func(f *queue.Filter) *string { return (*string)(&f.Status) }),
	text("key", func(f *queue.Filter) *string { return &f.Key }),
	text("group", func(f *queue.Filter) *string { return &f.Group }),
	number("min_attempts", func(f *queue.Filter) *int { return &f.MinAttempts }),
	flag("expired", func(f *queue.Filter) *bool { return &f.Expired }),
	number("running_for_ns", func(f *queue.Filter) *time.Duration { return &f.RunningFor }),
	moment("created_from", func(f *queue.Filter) *time.Time { return &f.CreatedFrom }),
	moment("created_to", func(f *queue.Filter) *time.Time { return &f.CreatedTo }),
	moment("finished_from", func(f *queue.Filter) *time.Time { return &f.FinishedFrom }),
	moment("finished_to", func(f *queue.Filter) *time.Time { return &f.FinishedTo }),
	flag("no_payload", func(f *queue.Filter) *bool { return &f.NoPayload }),
	flag("bare", func(f *queue.Filter) *bool { return &f.Bare }),
	number("before", func(f *queue.Filter) *int64 { return &f.Before }),
	number("limit", func(f *queue.Filter) *int { return &f.Limit }),
}

// FilterOf returns the filter of a URL's query. The error is a [*queue.InvalidError] with the name
// of the parameter. A query that is not understood as a whole chooses nothing: without one of its
// parameters it would choose more jobs than are meant.
func FilterOf(text string) (f queue.Filter, err error) {
	query, err := url.ParseQuery(text)
	if err != nil {
		return f, &queue.InvalidError{Field: "query", Problem: "not of the form name=value&name=value", Err: err}
	}
	known := make(map[string]bool)
	for _, p := range Params {
		known[p.Name] = true
		if !query.Has(p.Name) {
			continue
		}
		if err := p.set(&f, query.Get(p.Name)); err != nil {
			return f, &queue.InvalidError{Field: p.Name, Problem: fmt.Sprintf("%.40q: not a value of this parameter", query.Get(p.Name))}
		}
	}
	for name, values := range query {
		if !known[name] {
			return f, &queue.InvalidError{Field: name, Problem: "no such parameter"}
		}
		if len(values) > 1 {
			return f, &queue.InvalidError{Field: name, Problem: "named more than once"}
		}
	}
	return f, nil
}

// QueryOf returns the query of a filter.
func QueryOf(f queue.Filter) url.Values {
	query := make(url.Values)
	for _, p := range Params {
		if value := p.get(&f); value != "" {
			query.Set(p.Name, value)
		}
	}
	return query
}

func text(name string, field func(*queue.Filter) *string) Param {
	return Param{name, func(f *queue.Filter) string { return *field(f) },
		func(f *queue.Filter, value string) error { *field(f) = value; return nil }}
}

func number[T int | int64 | time.Duration](name string, field func(*queue.Filter) *T) Param {
	return Param{name,
		func(f *queue.Filter) string {
			if *field(f) == 0 {
				return ""
			}
			return strconv.FormatInt(int64(*field(f)), 10)
		},
		func(f *queue.Filter, value string) error {
			n, err := strconv.ParseInt(value, 10, 64)
			*field(f) = T(n)
			return err
		}}
}

func flag(name string, field func(*queue.Filter) *bool) Param {
	return Param{name,
		func(f *queue.Filter) string {
			if !*field(f) {
				return ""
			}
			return "true"
		},
		func(f *queue.Filter, value string) (err error) { *field(f), err = strconv.ParseBool(value); return err }}
}

func moment(name string, field func(*queue.Filter) *time.Time) Param {
	return Param{name,
		func(f *queue.Filter) string {
			if field(f).IsZero() {
				return ""
			}
			return field(f).UTC().Format(time.RFC3339Nano)
		},
		func(f *queue.Filter, value string) (err error) {
			*field(f), err = time.Parse(time.RFC3339Nano, value)
			return err
		}}
}
