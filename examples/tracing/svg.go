package main

import (
	"bytes"
	"fmt"
	"html"
	"strconv"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
)

// The picture's measures, in pixels.
const (
	picWidth  = 900
	margin    = 24
	axisLeft  = 276 // where the first span begins
	axisRight = 808 // where the last one ends; its duration is written beyond
	axisTop   = 92
	rowHeight = 44
	barHeight = 18
)

// colors are fills and strokes by the kind of span.
var colors = map[oteltrace.SpanKind]string{
	oteltrace.SpanKindServer:   "#0969da",
	oteltrace.SpanKindProducer: "#8250df",
	oteltrace.SpanKindConsumer: "#1a7f37",
	oteltrace.SpanKindClient:   "#bc4c00",
	oteltrace.SpanKindInternal: "#57606a",
}

const style = `
text { font: 13px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.small { font-size: 11px; fill: #59636e; stroke: #ffffff; stroke-width: 4px; paint-order: stroke }
.name { font-weight: 600 }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.child { stroke: #59636e; stroke-width: 1.5; fill: none }
.link { stroke: #59636e; stroke-width: 1.5; stroke-dasharray: 2 4; fill: none }
`

// drawing is an SVG under way.
type drawing struct {
	bytes.Buffer
	trace
}

// svg draws the trace. The same trace is drawn the same, byte for byte.
func (t trace) svg() []byte {
	d := &drawing{trace: t}
	height := axisTop + len(t.rows)*rowHeight + 60
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="title">`, picWidth, height, picWidth, height)
	d.put(`<title id="title">The trace of one order, from the HTTP request to the settling of its job</title>`)
	d.put("<style>%s</style>", style)
	d.put(`<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" fill="#ffffff" stroke="#d1d9e0"/>`, picWidth-1, height-1)
	d.text(margin, 36, "title", "One order, one trace")
	d.text(margin, 56, "small", fmt.Sprintf("trace %v, %.1f ms in all", t.id, millis(t.took())))
	d.axis()
	for i := range t.rows {
		d.edges(i)
	}
	for i := range t.rows {
		d.row(i)
	}
	d.legend(float64(height) - 28)
	d.put("</svg>")
	return d.Bytes()
}

func (d *drawing) put(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// text writes what may be anything at that place.
func (d *drawing) text(x, y float64, class, s string) {
	d.put(`<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, html.EscapeString(s))
}

// x is where a time is on the axis.
func (d *drawing) x(at time.Duration) float64 {
	return axisLeft + (axisRight-axisLeft)*float64(at)/float64(d.took())
}

// left and right are the ends of a row's bar, which is wide enough to be seen.
func (d *drawing) left(i int) float64 { return d.x(d.rows[i].start) }

func (d *drawing) right(i int) float64 {
	return max(d.x(d.rows[i].start+d.rows[i].took), d.left(i)+3)
}

// middle is the height of a row's bar.
func middle(i int) float64 { return axisTop + (float64(i)+0.5)*rowHeight }

// axis draws the times, and lines across all rows.
func (d *drawing) axis() {
	bottom := middle(len(d.rows)) - rowHeight/2
	step := tick(d.took())
	for at := time.Duration(0); at <= d.took(); at += step {
		x := d.x(at)
		d.put(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%.1f" class="grid"/>`, x, axisTop, x, bottom)
		d.put(`<text x="%.1f" y="%d" class="small" text-anchor="middle">%s ms</text>`, x, axisTop-8, strconv.FormatFloat(millis(at), 'f', -1, 64))
	}
}

// tick is the time between two lines: 1, 2 or 5 of a power of ten, for at most eight of them.
func tick(whole time.Duration) time.Duration {
	for unit := time.Microsecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if whole/(n*unit) < 8 {
				return n * unit
			}
		}
	}
}

// row draws a row's name and its bar.
func (d *drawing) row(i int) {
	r := d.rows[i]
	y := middle(i)
	indent := margin + 16*float64(r.depth)
	d.text(indent, y-2, "name", r.name)
	note := r.kind.String()
	if r.apart {
		note += ", in a trace of the worker's own"
	}
	d.text(indent, y+13, "small", note)
	color, fill, dash := colors[r.kind], colors[r.kind], ""
	if r.apart {
		fill, dash = "#ffffff", ` stroke-dasharray="4 2"`
	}
	d.put(`<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="3" fill="%s" stroke="%s" stroke-width="1.5"%s/>`,
		d.left(i), y-barHeight/2, d.right(i)-d.left(i), barHeight, fill, color, dash)
	d.text(d.right(i)+8, y+4, "small", fmt.Sprintf("%.2f ms", millis(r.took)))
}

// edges draws the lines to a row from its parent and from what it links to. Where it does both they
// run side by side.
func (d *drawing) edges(i int) {
	r := d.rows[i]
	if r.parent >= 0 {
		d.edge("child", r.parent, i, -4)
	}
	for _, target := range r.links {
		d.edge("link", target, i, 4)
	}
}

// edge goes down from the bar of one row, and right to that of a later one, aside by a few pixels.
func (d *drawing) edge(class string, from, to int, aside float64) {
	// Each row has its place on the bar that it comes from, so that lines do not meet.
	share := float64(to-from) / float64(len(d.rows))
	x := d.right(from) - share*(d.right(from)-d.left(from)) - aside/2
	x = max(min(x, d.left(to)), d.left(from))
	d.put(`<path d="M%.1f %.1f V%.1f H%.1f" class="%s"/>`, x, middle(from)+barHeight/2, middle(to)+aside, d.left(to), class)
}

func (d *drawing) legend(y float64) {
	d.put(`<path d="M%d %.1f h28" class="child"/>`, margin, y-4)
	d.text(margin+36, y, "small", "child of")
	d.put(`<path d="M%d %.1f h28" class="link"/>`, margin+104, y-4)
	d.text(margin+140, y, "small", "links to")
	d.put(`<rect x="%d" y="%.1f" width="28" height="10" rx="3" fill="#ffffff" stroke="%s" stroke-width="1.5" stroke-dasharray="4 2"/>`, margin+208, y-9, colors[oteltrace.SpanKindClient])
	d.text(margin+244, y, "small", "a batch operation of the worker, which may be for jobs of many traces")
}
