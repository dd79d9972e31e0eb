package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// text prints the trace as a waterfall.
func (t trace) text() string {
	const width = 48 // of the time axis
	var b strings.Builder
	whole := t.took()
	fmt.Fprintf(&b, "\ntrace %v, %.2f ms\n\n", t.id, millis(whole))
	for _, r := range t.rows {
		from := int(int64(r.start) * width / int64(whole))
		to := max(int(int64(r.start+r.took)*width/int64(whole)), from+1)
		bar := strings.Repeat(" ", from) + strings.Repeat(r.glyph(), to-from)
		bar += strings.Repeat(" ", max(width-utf8.RuneCountInString(bar), 0))
		name := strings.Repeat("  ", r.depth) + r.name
		fmt.Fprintf(&b, "%-24s %-8s |%s| %7.2f ms", name, r.kind, bar, millis(r.took))
		for _, l := range r.links {
			fmt.Fprintf(&b, "  links to %s", t.rows[l].name)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n= in the trace   - a trace of the worker's own, linked to it\n\n")
	return b.String()
}

func (r row) glyph() string {
	if r.apart {
		return "-"
	}
	return "="
}
