package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/errandhq/errand/lab/bench/internal/result"
)

// textWidth is the length of a line of prose.
const textWidth = 110

// Text writes the tables for people to read in a terminal.
func Text(w io.Writer, h Header, tables []*result.Table) error {
	var b strings.Builder
	for _, line := range h.lines() {
		prose(&b, "", line)
	}
	for _, t := range tables {
		fmt.Fprintf(&b, "\n%s\n", heading(t))
		prose(&b, "  ", t.Note)
		if g := layOut(t); len(g.rows) > 0 {
			columns(&b, append([][]string{g.head}, g.rows...), leadingText(g))
		}
		for _, line := range gaps(t) {
			prose(&b, "  ", line)
		}
		for _, v := range verdicts(t) {
			fmt.Fprintf(&b, "  target: %s: %s\n", v[0], strings.TrimPrefix(v[1]+", "+v[2], ", "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// leadingText returns how many of the first columns of g hold words.
func leadingText(g grid) int {
	if len(g.head) > 1 && g.head[1] == "case" {
		return 2
	}
	return 1
}

// columns writes rows in columns. The first left columns are aligned to the left, the others, which
// hold numbers, to the right.
func columns(b *strings.Builder, rows [][]string, left int) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < left {
				line.WriteString("  " + cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
}

// prose writes words in lines of at most textWidth. All lines but the first are indented.
func prose(b *strings.Builder, indent, words string) {
	line := indent
	for _, word := range strings.Fields(words) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > textWidth {
			fmt.Fprintln(b, strings.TrimRight(line, " "))
			line = indent + "  "
		}
		if strings.TrimSpace(line) != "" {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(b, strings.TrimRight(line, " "))
}
