package reader

import "testing"

// TestStatements: errand doctor -v prints statements with their parameters, in a comment of one
// line whatever they hold.
func TestStatements(t *testing.T) {
	var s statements
	s.Note(" SELECT 1\n")
	s.Note("SELECT 1")
	s.Note("SELECT $1, $2", "a\n; DROP TABLE jobs", 10)
	want := "SELECT 1;\n-- $1 = \"a\\n; DROP TABLE jobs\", $2 = \"10\"\nSELECT $1, $2"
	if got := s.Take(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := s.Take(); got != "" {
		t.Errorf("taken twice: %s", got)
	}
}
