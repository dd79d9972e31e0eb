package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/backend/postgrestest"
)

// What the picture shows, from a real server: one trace, and what links to it.
func TestFollow(t *testing.T) {
	seen, err := follow(t.Context(), postgrestest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range seen.trace.rows {
		parent, links := "none", ""
		if r.parent >= 0 {
			parent = seen.trace.rows[r.parent].name
		}
		for _, l := range r.links {
			links += ", links to " + seen.trace.rows[l].name
		}
		apart := ""
		if r.apart {
			apart = ", apart"
		}
		got = append(got, fmt.Sprintf("%s: %v, parent %s%s%s", r.name, r.kind, parent, links, apart))
	}
	want := []string{
		"POST /orders: server, parent none",
		"enqueue default: producer, parent POST /orders",
		"claim default: client, parent none, links to enqueue default, apart",
		"process default: consumer, parent enqueue default, links to enqueue default",
		"send confirmation: internal, parent process default",
		"settle default: client, parent none, links to enqueue default, apart",
	}
	if !slices.Equal(got, want) {
		t.Errorf("spans:\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	for _, want := range []string{
		`(?m)^errand_job_outcomes_total\{.*errand_job_outcome="done".*\} 2$`,
		`(?m)^errand_queue_depth\{.*errand_job_status="completed".*messaging_destination_name="default".*\} 2$`,
		`(?m)^errand_queue_oldest_due_age_seconds\{.*messaging_destination_name="default".*\} 0$`,
		`(?m)^http_server_request_duration_seconds_count\{.*http_response_status_code="201".*\} 2$`,
	} {
		if !regexp.MustCompile(want).MatchString(seen.metrics) {
			t.Errorf("no match for %s in the metrics:\n%s", want, seen.metrics)
		}
	}
}

// The whole program, and what it leaves behind: the picture, and nothing else.
func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.svg")
	var out bytes.Buffer
	if err := run(t.Context(), &out, file); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`^PostgreSQL \d+.*?(?: data in (\S+))?\n/metrics has \d{3,} series\n$`).FindStringSubmatch(out.String())
	if m == nil {
		t.Fatalf("output: got %q", out.String())
	}
	if dir := m[1]; dir != "" {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("stat %s: got %v, want %v", dir, err, os.ErrNotExist)
		}
	}
	svg, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(svg, []byte("send confirmation")) {
		t.Errorf("picture: got %.100q, %v; want one with the handler's span", svg, err)
	}
}

// A claim that was under way when the job was enqueued comes after that.
func TestRowsOf(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	span := func(trace, id byte, name string, start, end int, linksTo ...tracetest.SpanStub) tracetest.SpanStub {
		s := tracetest.SpanStub{Name: name, StartTime: at(start), EndTime: at(end)}
		s.SpanContext = oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: oteltrace.TraceID{trace}, SpanID: oteltrace.SpanID{id}})
		for _, l := range linksTo {
			s.Links = append(s.Links, sdktrace.Link{SpanContext: l.SpanContext})
		}
		return s
	}
	request, enqueue := span(1, 1, "request", 1, 9), span(1, 2, "enqueue", 3, 4)
	request.Parent, enqueue.Parent = oteltrace.SpanContext{}, request.SpanContext
	claim, other := span(2, 3, "claim", 0, 6, enqueue), span(3, 4, "other", 5, 6)

	rows := rowsOf(tracetest.SpanStubs{claim, other, enqueue, request}, oteltrace.TraceID{1})
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s at %v, parent %d, links %v", r.name, r.start, r.parent, r.links))
	}
	want := []string{"request at 1ms, parent -1, links []", "enqueue at 3ms, parent 0, links []", "claim at 0s, parent -1, links [1]"}
	if !slices.Equal(got, want) {
		t.Errorf("rows: got %q, want %q", got, want)
	}
}

// sample is a trace of known times.
func sample() trace {
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	return trace{id: oteltrace.TraceID{1}, rows: []row{
		{name: "POST /orders", kind: oteltrace.SpanKindServer, start: 0, took: ms(2), parent: -1},
		{name: `a <b> & "c"`, kind: oteltrace.SpanKindProducer, start: ms(1), took: ms(0.5), parent: 0, depth: 1},
		{name: "settle", kind: oteltrace.SpanKindClient, start: ms(7), took: ms(1), parent: -1, links: []int{1}, apart: true},
	}}
}

func TestText(t *testing.T) {
	const want = `
trace 01000000000000000000000000000000, 8.00 ms

POST /orders             server   |============                                    |    2.00 ms
  a <b> & "c"            producer |      ===                                       |    0.50 ms
settle                   client   |                                          ------|    1.00 ms  links to a <b> & "c"

= in the trace   - a trace of the worker's own, linked to it

`
	if got := sample().text(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// The picture is XML in which every span has its name, and everything is inside.
func TestSVG(t *testing.T) {
	svg := sample().svg()
	if again := sample().svg(); !bytes.Equal(svg, again) {
		t.Error("the same trace is drawn in two ways")
	}
	var texts []string
	rects := 0
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			texts = append(texts, string(token))
		case xml.StartElement:
			if token.Name.Local == "rect" {
				rects++
				wantInside(t, token)
			}
		}
	}
	for _, want := range []string{"POST /orders", `a <b> & "c"`, "settle", "0.50 ms", "8 ms"} {
		if !slices.Contains(texts, want) {
			t.Errorf("no text %q among %q", want, texts)
		}
	}
	if want := 1 + 3 + 1; rects != want { // the background, the bars, and the legend's
		t.Errorf("rectangles: got %d, want %d", rects, want)
	}
}

func wantInside(t *testing.T, rect xml.StartElement) {
	t.Helper()
	at := make(map[string]float64)
	for _, a := range rect.Attr {
		at[a.Name.Local], _ = strconv.ParseFloat(a.Value, 64) // 0 for what is no number
	}
	if at["x"] < 0 || at["width"] <= 0 || at["x"]+at["width"] > picWidth {
		t.Errorf("rectangle at %v, %v wide: not inside the picture", at["x"], at["width"])
	}
}

func TestTick(t *testing.T) {
	for whole, want := range map[time.Duration]time.Duration{
		4500 * time.Microsecond: time.Millisecond,
		8 * time.Millisecond:    2 * time.Millisecond,
		70 * time.Millisecond:   10 * time.Millisecond,
		5 * time.Microsecond:    time.Microsecond,
	} {
		if got := tick(whole); got != want {
			t.Errorf("tick of %v: got %v, want %v", whole, got, want)
		}
	}
}
