package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func rows() []*Row {
	good := &Row{Number: 1, Scenario: "sigkill", What: "workers are killed", System: "errand", Jobs: 50000, Faults: 30, Duplicates: 812, Bound: 960, RecoveryMS: 400, Took: 71 * time.Second}
	good.Check(true, "lost 0", "%d", 0)
	good.Note("leases of 2 s")
	bad := &Row{Number: 10, Scenario: "crash", What: "a | b", System: "river", Lost: 1, RecoveryMS: -1}
	bad.Check(true, "dup ≤ bound", "0")
	bad.Check(false, "lost 0", "1: still running\nafter attempt 2")
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

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1: "-1", -100: "-100", -1000: "-1,000"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestFormats(t *testing.T) {
	h := Header{Command: "go run . -seed 7", Server: "PostgreSQL 15.18", Machine: "2 cores", Systems: []string{"errand: defaults"}}
	var text, markdown, js bytes.Buffer
	for _, err := range []error{Text(&text, h, rows()), Markdown(&markdown, h, rows()), JSON(&js, h, rows())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"50,000", "812 ≤ 960", "0.4 s", "1m11s", "pass", "FAIL", "FAIL  lost 0: 1: still", "leases of 2 s", "go run . -seed 7"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("text: no %q in\n%s", want, text.String())
		}
	}
	for _, want := range []string{
		"| 1 | workers are killed | errand | 50,000 | 30 | 0 | 812 ≤ 960 | 0.4 s | pass |",
		`| 10 | a \| b | river | 0 | 0 | 1 | 0 ≤ 0 | – | **FAIL** |`,
		"| 10 | river | lost 0 | **fails**: 1: still running after attempt 2 |",
	} {
		if !strings.Contains(markdown.String(), want+"\n") {
			t.Errorf("markdown: no %q in\n%s", want, markdown.String())
		}
	}
	var records []struct {
		Number  int
		Lost    int
		Pass    bool
		Command string
		Checks  []Check
	}
	if err := json.Unmarshal(js.Bytes(), &records); err != nil {
		t.Fatal(err)
	}
	if len(records) != 2 || !records[0].Pass || records[1].Pass || records[1].Lost != 1 || records[0].Command != h.Command || len(records[1].Checks) != 2 {
		t.Errorf("json: got %+v", records)
	}
}
