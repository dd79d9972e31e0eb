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

var update = flag.Bool("update", false, "write the tables of docs/reliability.md and the file lab/results/reliability/criteria.md")

const (
	reliability = "../../docs/reliability.md"
	criteria    = "../results/reliability/criteria.md"
	tablesBegin = "<!-- tables: from lab/results/reliability/*.json, by: cd lab && GOWORK=off go test ./chaos -run TestPublished -update -->\n"
	tablesEnd   = "<!-- end of the tables -->\n"

	criteriaTitle = "# What was demanded of each row of [reliability.md](../../../docs/reliability.md), and found\n\n" +
		"The commands are to be run in [lab/chaos](../../chaos).\n\n"
)

// TestPublished holds the published tables to the reports that they come of.
func TestPublished(t *testing.T) {
	files, err := filepath.Glob("../results/reliability/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d reports, %v", len(files), err)
	}
	rows, err := report.Read(files...)
	if err != nil {
		t.Fatal(err)
	}
	var tables, found bytes.Buffer
	if err := report.Markdown(&tables, rows); err != nil {
		t.Fatal(err)
	}
	if err := report.Criteria(&found, rows); err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(reliability)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(document), tablesBegin)
	_, after, ends := strings.Cut(rest, tablesEnd)
	if !ok || !ends {
		t.Fatalf("%s has no tables between %q and %q", reliability, tablesBegin, tablesEnd)
	}
	hold(t, reliability, before+tablesBegin+"\n"+tables.String()+"\n"+tablesEnd+after)
	hold(t, criteria, criteriaTitle+found.String())
}

// hold demands that a file has this text, or writes it.
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
