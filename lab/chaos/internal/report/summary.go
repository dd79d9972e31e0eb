package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Summary writes the table of docs/reliability.md: errand's rows, one for each scenario and server.
// Of several runs it takes the full size before the short one, and then the latest.
func Summary(out io.Writer, rows []*Row) error {
	var b strings.Builder
	b.WriteString("| # | scenario | server | size | jobs | faults | lost | still open | duplicates ≤ bound | recovery | result |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range chosen(rows) {
		size := "full"
		if r.Run.Short {
			size = "short"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Number, cell(r.What), r.Server, size, thousands(r.Jobs),
			thousands(r.Faults), thousands(r.Lost), thousands(r.Open), r.duplicates(), r.recovery(), r.verdict())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// chosen returns errand's row of each scenario and server, by number and server.
func chosen(rows []*Row) []*Row {
	type key struct {
		server, what string
		number       int
	}
	best := make(map[key]*Row)
	for _, r := range rows {
		k := key{r.Server, r.What, r.Number}
		if r.System != "river" && (best[k] == nil || isBetter(r, best[k])) {
			best[k] = r
		}
	}
	var list []*Row
	for _, r := range best {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.What, b.What), cmp.Compare(a.Server, b.Server))
	})
	return list
}

// isBetter reports whether the table should have r instead of old.
func isBetter(r, old *Row) bool {
	if r.Run.Short != old.Run.Short {
		return old.Run.Short
	}
	return r.Run.Date >= old.Run.Date
}
