package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

// The measures of a picture, in pixels.
const (
	svgWidth   = 800
	svgMargin  = 20
	labelWidth = 190
	valueWidth = 190 // for the number beside the longest bar
	barHeight  = 18
	barGap     = 6
	caseGap    = 10
	lineHeight = 20
	plotHeight = 120
)

// The colours, on white: errand's own, the floor's and the ideal's.
var colours = map[string]string{"errand": "#1d6fb8", "floor": "#6b7280", "ideal": "#6b7280"}

const (
	peerColour = "#c08a3e"
	inkColour  = "#1f2937"
	faintInk   = "#6b7280"
)

// SVG draws the metrics of t's chart: as bars, or as lines over time.
func SVG(w io.Writer, t *result.Table) error {
	c := &canvas{y: svgMargin}
	c.text(svgMargin, 16, inkColour, "start", true, t.Scenario)
	c.y += lineHeight
	for _, line := range wrap(t.Title, 110) {
		c.text(svgMargin, 13, inkColour, "start", false, line)
		c.y += lineHeight
	}
	for _, m := range t.Chart {
		c.y += 2 * caseGap
		c.text(svgMargin, 13, faintInk, "start", false, panelTitle(t, m))
		c.y += lineHeight / 2
		if t.Series {
			c.lines(t, m)
		} else {
			c.bars(t, m)
		}
	}
	for _, line := range gaps(t) {
		for _, part := range wrap(line, 110) {
			c.y += lineHeight
			c.text(svgMargin, 12, faintInk, "start", false, part)
		}
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif">
<rect width="100%%" height="100%%" fill="#ffffff"/>
%s</svg>
`, svgWidth, c.y+svgMargin, svgWidth, c.y+svgMargin, c.b.String())
	return err
}

func panelTitle(t *result.Table, m result.Metric) string {
	title := m.Name + ", " + m.Unit
	if !t.Series {
		title += ": median, and least to most of the rounds"
	}
	return title
}

// canvas is a picture that is drawn down to y.
type canvas struct {
	b strings.Builder
	y int
}

func (c *canvas) text(x, size int, colour, anchor string, bold bool, words string) {
	weight := ""
	if bold {
		weight = ` font-weight="600"`
	}
	fmt.Fprintf(&c.b, `<text x="%d" y="%d" font-size="%d" fill="%s" text-anchor="%s"%s>%s</text>`+"\n",
		x, c.y, size, colour, anchor, weight, html.EscapeString(words))
}

// bars draws a bar for each place that has m.
func (c *canvas) bars(t *result.Table, m result.Metric) {
	var rows []*result.Row
	most := 0.0
	for _, p := range inOrder(t) {
		if row := t.Row(p, m); row != nil {
			rows = append(rows, row)
			most = max(most, row.Max())
		}
	}
	scale := float64(svgWidth-2*svgMargin-labelWidth-valueWidth) / max(most, math.SmallestNonzeroFloat64)
	for i, row := range rows {
		if i > 0 && row.Case != rows[i-1].Case {
			c.y += caseGap
		}
		c.y += barGap
		c.bar(row, scale)
		c.y += barHeight
	}
	c.y += barGap
}

func (c *canvas) bar(row *result.Row, scale float64) {
	x := float64(svgMargin + labelWidth)
	length := func(v float64) float64 { return max(v, 0) * scale }
	fmt.Fprintf(&c.b, `<rect x="%.0f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n",
		x, c.y, max(length(row.Median()), 1), barHeight, colourOf(row.System))
	if row.Max() > row.Min() {
		middle := c.y + barHeight/2
		fmt.Fprintf(&c.b, `<path d="M%.1f %dH%.1fM%.1f %dv6M%.1f %dv6" stroke="%s" fill="none"/>`+"\n",
			x+length(row.Min()), middle, x+length(row.Max()), x+length(row.Min()), middle-3, x+length(row.Max()), middle-3, inkColour)
	}
	c.y += barHeight - 5
	c.text(svgMargin+labelWidth-8, 12, inkColour, "end", false, row.String())
	c.text(int(x+length(row.Max()))+8, 12, inkColour, "start", false, number(row.Median())+" "+row.Metric.Unit)
	c.y -= barHeight - 5
}

func colourOf(system string) string {
	if colour, ok := colours[peer.Named(system).Family]; ok {
		return colour
	}
	return peerColour
}

// lines draws m over the points in time, from 0 at the bottom.
func (c *canvas) lines(t *result.Table, m result.Metric) {
	rows := seriesOf(t, m)
	if len(rows) == 0 {
		return
	}
	left, right := svgMargin+labelWidth/3, svgWidth-svgMargin-valueWidth/3
	most := math.SmallestNonzeroFloat64
	for _, row := range rows {
		most = max(most, row.Median())
	}
	bottom := c.y + plotHeight
	height := func(v float64) float64 { return v / most * plotHeight }
	fmt.Fprintf(&c.b, `<path d="M%d %dH%dM%d %dH%d" stroke="#e5e7eb"/>`+"\n", left, c.y, right, left, bottom, right)
	var points []string
	for i, row := range rows {
		x := float64(left) + float64(right-left)*(float64(i)+0.5)/float64(len(rows))
		points = append(points, fmt.Sprintf("%.1f,%.1f", x, float64(bottom)-height(row.Median())))
	}
	fmt.Fprintf(&c.b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colours["errand"])
	last := rows[len(rows)-1]
	c.y += 4
	c.text(left-6, 12, faintInk, "end", false, number(most))
	c.y = bottom + 4
	c.text(left-6, 12, faintInk, "end", false, "0")
	c.y = bottom - int(height(last.Median())) + 4
	c.text(right+6, 12, inkColour, "start", false, number(last.Median()))
	c.y = bottom + lineHeight
	c.text(left, 12, faintInk, "start", false, rows[0].Case)
	c.text(right, 12, faintInk, "end", false, last.Case)
}

// seriesOf returns the rows of m at the points in time, in their order.
func seriesOf(t *result.Table, m result.Metric) []*result.Row {
	var rows []*result.Row
	for _, row := range t.Rows {
		if row.Metric == m && strings.HasPrefix(row.Case, result.At) {
			rows = append(rows, row)
		}
	}
	return rows
}

// wrap breaks words into lines of at most n bytes.
func wrap(words string, n int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(words) {
		if line != "" && len(line)+1+len(word) > n {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
