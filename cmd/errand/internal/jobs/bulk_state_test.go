package jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBulkState: the state of an interrupted import is taken by the next run of the same input into
// the same database, within the window, and by no other.
func TestBulkState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.state")
	s := bulkState{Input: "sum", Database: "here", Counts: bulkCounts{Lines: 9}}
	first, err := openState(file, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.create(); !os.IsExist(err) {
		t.Errorf("a second import of the same file began: %v", err)
	}
	first.Counts.Enqueued = 5
	if err := first.advance(5); err != nil {
		t.Fatal(err)
	}
	again, err := openState(file, s)
	if err != nil || again.ID != first.ID || again.Done != 5 || again.Counts.Enqueued != 5 {
		t.Errorf("going on: got %+v, %v; want %+v", again, err, first)
	}
	for want, change := range map[string]func(s *bulkState){
		"the input is not the one":    func(s *bulkState) { s.Input = "changed" },
		"is into the here: name that": func(s *bulkState) { s.Database = "there" },
	} {
		wrong := s
		change(&wrong)
		if _, err := openState(file, wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	first.At = time.Now().Add(-resumeWindow - time.Minute)
	if err := first.save(); err != nil {
		t.Fatal(err)
	}
	if _, err := openState(file, s); err == nil || !strings.Contains(err.Error(), "interrupted after line 5 more than 23h0m0s ago") {
		t.Errorf("after the window: %v", err)
	}
	if err := first.remove(); err != nil {
		t.Fatal(err)
	}
	if fresh, err := openState(file, s); err != nil || fresh.ID == first.ID || fresh.Done != 0 {
		t.Errorf("a new import: %+v, %v", fresh, err)
	}
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 1 {
		t.Errorf("files left: %v, %v; want the state alone", left, err)
	}
}
