package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/errandhq/errand/lab/bench/internal/result"
)

// Markdown writes the tables for lab/results/bench/README.md.
func Markdown(w io.Writer, h Header, tables []*result.Table) error {
	var b strings.Builder
	for _, line := range h.lines() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	for _, t := range tables {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", heading(t), t.Note)
		if g := layOut(t); len(g.rows) > 0 {
			pipes(&b, g.head, g.rows, leadingText(g))
		}
		if lines := gaps(t); len(lines) > 0 {
			fmt.Fprintln(&b)
			for _, line := range lines {
				fmt.Fprintf(&b, "- %s\n", line)
			}
		}
		if rows := verdicts(t); len(rows) > 0 {
			pipes(&b, []string{"target", "this run", ""}, rows, 1)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pipes writes a table. Its first left columns are aligned to the left.
func pipes(b *strings.Builder, head []string, rows [][]string, left int) {
	fmt.Fprintf(b, "\n| %s |\n|", strings.Join(head, " | "))
	for i := range head {
		if i < left {
			b.WriteString("---|")
		} else {
			b.WriteString("---:|")
		}
	}
	b.WriteByte('\n')
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
}
