package report

import (
	"strings"
	"testing"
)

// TestSummary: one row of errand's for each scenario and server. The full size comes before the
// short one, then the latest run. A row that failed says why.
func TestSummary(t *testing.T) {
	row := func(server, system, date string, short bool, jobs int) *Row {
		return &Row{Number: 1, What: "killed", Server: server, System: system, Jobs: jobs, Run: Run{Date: date, Short: short}}
	}
	list := []*Row{
		row("PostgreSQL 15.18", "errand", "2026-11-21", false, 10),
		row("PostgreSQL 15.18", "errand", "2026-11-23", true, 20),
		row("PostgreSQL 15.18", "errand", "2026-11-22", false, 30),
		row("PostgreSQL 15.18", "river", "2026-11-24", false, 40),
		row("PostgreSQL 13.1", "errand", "2026-11-21", true, 50),
	}
	list[0].Check(false, "flat", "8 MiB, then 26")
	list[2].Check(true, "lost 0", "0")
	list[4].Check(false, "flat", "8 MiB, then 26")
	var out strings.Builder
	if err := Summary(&out, list); err != nil {
		t.Fatal(err)
	}
	const want = `| 1 | killed | PostgreSQL 13.1 | short | 50 | 0 | 0 | 0 | 0 ≤ 0 | 0.0 s | **FAIL**: wanted flat; found 8 MiB, then 26 |
| 1 | killed | PostgreSQL 15.18 | full | 30 | 0 | 0 | 0 | 0 ≤ 0 | 0.0 s | pass |
`
	if _, got, _ := strings.Cut(out.String(), "---|\n"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
