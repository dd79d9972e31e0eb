package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/errandhq/errand/lab/chaos/internal/report"
)

var update = flag.Bool("update", false, "write the table of docs/reliability.md, and tables.md and criteria.md in lab/results/reliability")

const (
	reliability = "../../docs/reliability.md"
	everyRow    = "../results/reliability/tables.md"
	criteria    = "../results/reliability/criteria.md"
	tableBegin  = "<!-- table: from lab/results/reliability/*.json, by: cd lab && GOWORK=off go test ./chaos -run TestPublished -update -->\n"
	tableEnd    = "<!-- end of the table -->\n"

	everyRowTitle = "# Every row, River's too, and the runs that they are from\n\n" +
		"[reliability.md](../../../docs/reliability.md) explains the columns, and [criteria.md](criteria.md) lists the criteria of each row.\n" +
		"A row fails if it misses one of them, and its last cell names the first that it missed. *Lost* are jobs that are gone; jobs that " +
		"still waited or ran at the end are *still open*, and not lost.\n\n"

	criteriaTitle = "# What was demanded of each row of [reliability.md](../../../docs/reliability.md), and found\n\n" +
		"Run the commands in [lab/chaos](../../chaos).\n\n" +
		"A row of 22 that compares the table's size with its first third is from before the criterion was\n" +
		"changed. Now it compares the last third with the second, because PostgreSQL keeps a table as long\n" +
		"as the largest backlog that it ever had.\n\n"
)

// TestPublished checks that the published tables are made from the reports.
func TestPublished(t *testing.T) {
	files, err := filepath.Glob("../results/reliability/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d reports, %v", len(files), err)
	}
	rows, err := report.Read(files...)
	if err != nil {
		t.Fatal(err)
	}
	var table, every, found bytes.Buffer
	if err := report.Summary(&table, rows); err != nil {
		t.Fatal(err)
	}
	if err := report.Markdown(&every, rows); err != nil {
		t.Fatal(err)
	}
	if err := report.Criteria(&found, rows); err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(reliability)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(document), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !ok || !ends {
		t.Fatalf("%s has no table between %q and %q", reliability, tableBegin, tableEnd)
	}
	hold(t, reliability, before+tableBegin+"\n"+table.String()+"\n"+tableEnd+after)
	hold(t, everyRow, everyRowTitle+every.String())
	hold(t, criteria, criteriaTitle+found.String())
}

// hold checks that a file has this text. With -update it writes the file.
func hold(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(name)
	if err != nil || string(got) != want {
		t.Errorf("%s: %v; or it is not what the reports say: run go test ./chaos -run TestPublished -update in lab", name, err)
	}
}
