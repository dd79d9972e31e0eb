package peer

import (
	"slices"
	"strings"
	"testing"
)

func TestNumberIn(t *testing.T) {
	for payload, want := range map[string]int{
		`{"to": "alice@example.com", "order": 123}`: 123,
		"\x01" + `{"order": 7, "to": "a"}`:          7,
		`{"order": 0}`:                              0,
		`{}`:                                        0,
	} {
		if got := numberIn([]byte(payload)); got != want {
			t.Errorf("numberIn(%s): got %d, want %d", payload, got, want)
		}
	}
}

func TestFamilies(t *testing.T) {
	if got, want := Families(), []string{"floor", "river", "asynq", "bullmq", "graphile", "goqite"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSystemsHaveNamesOfTheirOwn(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range Systems {
		if seen[s.Name] || s.Name == "" || s.About == "" {
			t.Errorf("%+v: want a name of its own and words about it", s)
		}
		seen[s.Name] = true
		if Named(s.Name).Name != s.Name {
			t.Errorf("Named(%s): got %s", s.Name, Named(s.Name).Name)
		}
	}
}

func TestNodeProgramNamesWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := bullMQ.Prepare(t.Context()); err == nil || err.Error() != "node is not installed" {
		t.Errorf("got %v, want that node is not installed", err)
	}
}

// TestNodeProgramIsInstalledAnew: programs have one folder only if all versions are the same.
func TestNodeProgramIsInstalledAnew(t *testing.T) {
	seen := make(map[string]bool)
	for _, packages := range [][]string{{"a@1"}, {"a@2"}, {"a@1", "b@1"}, {"a@1", "b@2"}} {
		folder := (&NodeProgram{packages: packages}).folder()
		if seen[folder] || strings.ContainsAny(folder, "@/") {
			t.Errorf("%v: got folder %s", packages, folder)
		}
		seen[folder] = true
	}
}

func TestOpenOfWhatIsNoQueue(t *testing.T) {
	if _, err := Open(t.Context(), Config{System: "ideal"}); err == nil || !strings.Contains(err.Error(), "not a queue") {
		t.Errorf("got %v, want an error", err)
	}
}
