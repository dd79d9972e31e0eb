package main

import (
	"cmp"
	"slices"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// trace is the spans of one trace, and those of others that link to it: those of the worker,
// whose claims and settlings may be for jobs of many traces. They are in the order in
// which they began, but after what they link to: a claim may have begun before the job
// that it finds.
type trace struct {
	id   oteltrace.TraceID
	rows []row
}

// row is a span, and where it belongs.
type row struct {
	name   string
	kind   oteltrace.SpanKind
	start  time.Duration // since the first span began
	took   time.Duration
	parent int // the row of its parent; -1 for none
	depth  int // how many parents are above it
	links  []int
	apart  bool // a trace of its own, which links to this one
}

func rowsOf(spans tracetest.SpanStubs, id oteltrace.TraceID) (rows []row) {
	spans = slices.DeleteFunc(slices.Clone(spans), func(s tracetest.SpanStub) bool {
		return s.SpanContext.TraceID() != id && !linksTo(s, id)
	})
	began := make(map[oteltrace.SpanID]time.Time)
	for _, s := range spans {
		began[s.SpanContext.SpanID()] = s.StartTime
	}
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int {
		return cmp.Or(placeOf(a, began).Compare(placeOf(b, began)), cmp.Compare(len(a.Links), len(b.Links)))
	})
	first := slices.MinFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) }).StartTime
	at := make(map[oteltrace.SpanID]int)
	for i, s := range spans {
		at[s.SpanContext.SpanID()] = i
	}
	for _, s := range spans {
		r := row{
			name:   s.Name,
			kind:   s.SpanKind,
			start:  s.StartTime.Sub(first),
			took:   s.EndTime.Sub(s.StartTime),
			parent: -1,
			apart:  s.SpanContext.TraceID() != id,
		}
		if p, ok := at[s.Parent.SpanID()]; ok {
			r.parent, r.depth = p, rows[p].depth+1 // it began before its children
		}
		for _, l := range s.Links {
			if i, ok := at[l.SpanContext.SpanID()]; ok {
				r.links = append(r.links, i)
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// placeOf is when a span began, or the last of those that it links to.
func placeOf(s tracetest.SpanStub, began map[oteltrace.SpanID]time.Time) time.Time {
	at := s.StartTime
	for _, l := range s.Links {
		if t := began[l.SpanContext.SpanID()]; t.After(at) {
			at = t
		}
	}
	return at
}

func linksTo(s tracetest.SpanStub, id oteltrace.TraceID) bool {
	return slices.ContainsFunc(s.Links, func(l sdktrace.Link) bool { return l.SpanContext.TraceID() == id })
}

// took is how long it was from when the first span began until the last ended.
func (t trace) took() (d time.Duration) {
	for _, r := range t.rows {
		d = max(d, r.start+r.took)
	}
	return d
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
