package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func rows() []*Row {
	good := &Row{Number: 1, Scenario: "sigkill", What: "workers are killed", System: "errand", About: "defaults", Jobs: 50000, Faults: 30, Duplicates: 812, Bound: 960, RecoveryMS: 400, TookMS: 71_000, Server: "PostgreSQL 15.18", Run: Run{Command: "go run . -seed 7"}}
	good.Check(true, "lost 0", "%d", 0)
	good.Note("leases of 2 s")
	bad := &Row{Number: 10, Scenario: "crash", What: "a | b", System: "river", Lost: 1, Open: 2, RecoveryMS: -1, Server: "PostgreSQL 15.18"}
	bad.Check(true, "dup ≤ bound", "0")
	bad.Check(false, "lost 0", "1: gone\nafter attempt 2")
	return []*Row{good, bad}
}

func TestPass(t *testing.T) {
	r := rows()
	if !r[0].Pass() || r[1].Pass() {
		t.Errorf("got %v and %v, want true and false", r[0].Pass(), r[1].Pass())
	}
	if (&Row{}).Pass() {
		t.Error("a row without criteria passes")
	}
	r[0].NotRun = "no disk"
	if r[0].Pass() || r[0].Result() != "not run" {
		t.Errorf("a row that was not run: got %s", r[0].Result())
	}
	r[0].NotRun, r[0].Error = "", "no disk"
	if r[0].Pass() {
		t.Error("a row with an error passes")
	}
}

// TestVoid: a stall of the machine excuses criteria of time, and no others.
func TestVoid(t *testing.T) {
	for name, c := range map[string]struct {
		late, lost bool
		want       string
	}{
		"late":          {late: true, want: "VOID"},
		"lost":          {lost: true, want: "FAIL"},
		"late and lost": {late: true, lost: true, want: "FAIL"},
		"neither":       {want: "pass"},
	} {
		r := &Row{}
		r.Check(!c.lost, "lost 0", "")
		r.CheckTime(!c.late, "within 1 s", "")
		r.NoteStall("the machine stood still")
		if got := r.Result(); got != c.want || r.Pass() != (c.want == "pass") || !slices.Contains(r.Notes, "the machine stood still") {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1: "-1", -100: "-100", -1000: "-1,000"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestFormats(t *testing.T) {
	var text, markdown, criteria bytes.Buffer
	for _, err := range []error{Text(&text, rows()), Markdown(&markdown, rows()), Criteria(&criteria, rows())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"50,000", "812 ≤ 960", "0.4 s", "1m11s", "pass", "FAIL", "FAIL  lost 0: 1: gone", "leases of 2 s", "go run . -seed 7", "errand: defaults"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("text: no %q in\n%s", want, text.String())
		}
	}
	for _, want := range []string{
		"### PostgreSQL 15.18\n",
		"| 1 | workers are killed | errand | 50,000 | 30 | 0 | 0 | 812 ≤ 960 | 0.4 s | 1m11s | 1 | pass |",
		`| 10 | a \| b | river | 0 | 0 | 1 | 2 | 0 ≤ 0 | – | 0s | 2 | **FAIL**: wanted lost 0; found 1: gone after attempt 2 |`,
		"1. `go run . -seed 7`",
		"- errand: defaults",
	} {
		if !strings.Contains(markdown.String(), want) {
			t.Errorf("markdown: no %q in\n%s", want, markdown.String())
		}
	}
	for _, want := range []string{"## 1, errand, PostgreSQL 15.18: pass\n", "- lost 0: 0\n", "- (leases of 2 s)\n", "- lost 0: **fails**: 1: gone after attempt 2\n"} {
		if !strings.Contains(criteria.String(), want) {
			t.Errorf("criteria: no %q in\n%s", want, criteria.String())
		}
	}
}

// TestServersApart: rows of two servers are in a table each, by number.
func TestServersApart(t *testing.T) {
	list := rows()
	list = append(list, &Row{Number: 2, System: "errand", Server: "PostgreSQL 15.18"}, &Row{Number: 3, System: "errand", Server: "PostgreSQL 13.1"})
	var out bytes.Buffer
	if err := Markdown(&out, list); err != nil {
		t.Fatal(err)
	}
	var at []int
	for _, want := range []string{"### PostgreSQL 13.1\n", "\n| 3 |", "### PostgreSQL 15.18\n", "\n| 1 |", "\n| 2 |", "\n| 10 |"} {
		at = append(at, strings.Index(out.String(), want))
	}
	if !slices.IsSorted(at) || at[0] < 0 {
		t.Errorf("got the parts at %v of\n%s", at, out.String())
	}
}

// TestJSON reads what JSON has written.
func TestJSON(t *testing.T) {
	var js bytes.Buffer
	if err := JSON(&js, rows()); err != nil {
		t.Fatal(err)
	}
	var records []struct{ Pass bool }
	if err := json.Unmarshal(js.Bytes(), &records); err != nil {
		t.Fatal(err)
	}
	if len(records) != 2 || !records[0].Pass || records[1].Pass {
		t.Errorf("got %+v, want two, the first of which has passed", records)
	}
	file := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(file, js.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file, file)
	if want := append(rows(), rows()...); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want the same", got, err)
	}
}
