package main

import (
	"bytes"
	"fmt"
	"time"
)

// The picture's measures, in pixels.
const (
	width, height = 900, 360
	left, right   = 56, 880
	top, bottom   = 84, 310
)

// draw draws how many webhooks ran at each moment.
func draw(p *plan, f facts) []byte {
	c := &chart{began: p.began}
	for _, change := range f.changes {
		c.took = max(c.took, change.at.Sub(p.began))
		c.most = max(c.most, change.flood+change.others)
	}
	c.took, c.most = max(c.took, time.Second), (c.most/10+1)*10
	c.put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="title">`, width, height, width, height)
	c.put(`<title id="title">Webhooks that run at each moment, of one tenant with %d jobs and of the %d others</title>`, floodJobs, tenants-1)
	c.put(`<style>text { font: 13px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; fill: #1f2328 } .small { font-size: 11px; fill: #59636e }</style>`)
	c.put(`<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" fill="#ffffff" stroke="#d1d9e0"/>`, width-1, height-1)
	c.put(`<text x="24" y="34" style="font-size: 16px; font-weight: 600">Webhooks that run at once</text>`)
	c.put(`<text x="24" y="54" class="small">%d tenants, at most %d at once each; %s has %d jobs</text>`, tenants, perTenant, floodTenant, floodJobs)
	c.put(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#fff8c5"/>`, c.x(f.paused), top, c.x(f.resumed)-c.x(f.paused), bottom-top)
	c.put(`<text x="%.1f" y="%d" class="small">paused</text>`, c.x(f.paused)+4, top+14)
	c.axes()
	c.area("#0969da", 0.35, f.changes, func(x change) int { return x.flood + x.others })
	c.area("#cf222e", 1, f.changes, func(x change) int { return x.flood })
	c.put(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#cf222e" stroke-dasharray="4 3"/>`, c.x(f.cancelled), top, c.x(f.cancelled), bottom)
	c.put(`<text x="%.1f" y="%d" class="small">flood cancelled</text>`, c.x(f.cancelled)+4, top+14)
	c.put(`<rect x="620" y="44" width="12" height="12" fill="#cf222e"/><text x="638" y="55" class="small">%s</text>`, floodTenant)
	c.put(`<rect x="720" y="44" width="12" height="12" fill="#0969da" fill-opacity="0.35"/><text x="738" y="55" class="small">the other tenants</text>`)
	c.put("</svg>")
	return c.Bytes()
}

// chart is a picture under way.
type chart struct {
	bytes.Buffer
	began time.Time
	took  time.Duration
	most  int
}

func (c *chart) put(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

func (c *chart) x(at time.Time) float64 {
	share := max(float64(at.Sub(c.began))/float64(c.took), 0)
	return left + (right-left)*share
}

func (c *chart) y(n int) float64 { return bottom - (bottom-top)*float64(n)/float64(c.most) }

func (c *chart) axes() {
	for n := 0; n <= c.most; n += max(c.most/5, 1) {
		c.put(`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#d1d9e0"/>`, left, c.y(n), right, c.y(n))
		c.put(`<text x="%d" y="%.1f" class="small" text-anchor="end">%d</text>`, left-8, c.y(n)+4, n)
	}
	for s := time.Duration(0); s <= c.took; s += time.Second {
		c.put(`<text x="%.1f" y="%d" class="small" text-anchor="middle">%.0f s</text>`, c.x(c.began.Add(s)), bottom+20, s.Seconds())
	}
}

// area draws the highest value of each pixel.
func (c *chart) area(color string, opacity float64, changes []change, value func(change) int) {
	highest := make([]int, right-left+1)
	last := 0 // the value that held so far
	column := 0
	for _, x := range changes {
		next := min(max(int(c.x(x.at))-left, 0), right-left)
		for ; column < next; column++ {
			highest[column+1] = last
		}
		last = value(x)
		highest[next] = max(highest[next], last)
	}
	c.WriteString(`<path fill="` + color + `"`)
	fmt.Fprintf(c, ` fill-opacity="%.2f" d="M%d %d`, opacity, left, bottom)
	for i, n := range highest {
		fmt.Fprintf(c, "L%d %.1fh1", left+i, c.y(n))
	}
	c.put(`V%d Z"/>`, bottom)
}
