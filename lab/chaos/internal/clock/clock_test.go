package clock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPatchOfThisToolchain patches the package time of this toolchain, or of another one beside it.
func TestPatchOfThisToolchain(t *testing.T) {
	root, err := goCommand(t.Context(), "env", "GOROOT")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(root, "src", "time", "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch(source)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Replace(string(patched), "shiftedNow", "runtimeNow", 1); got != string(source) {
		t.Error("something else than one call has changed")
	}
	if again, err := patch(patched); err == nil {
		t.Errorf("what is patched was patched again: %d bytes", len(again))
	}
}

func TestPatchOfAnother(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"as it is":          {"package time\nfunc Now() Time { s, n, m := runtimeNow(); return f(s, n, m) }", "s, n, m := shiftedNow();"},
		"another call":      {"package time\nfunc Now() Time { return Time{clockNow()} }", ""},
		"two calls":         {"package time\nfunc Now() Time { runtimeNow(); s := runtimeNow(); return s }", ""},
		"another reader":    {"package time\nfunc Now() Time { return runtimeNow() }\nfunc Other() { now() }", ""},
		"not in Now":        {"package time\nfunc (t Time) Now() Time { return runtimeNow() }", ""},
		"not Go, by errors": {"package time\nfunc Now() {", ""},
	} {
		got, err := patch([]byte(c.source))
		if c.want == "" && err == nil || c.want != "" && (err != nil || !strings.Contains(string(got), c.want)) {
			t.Errorf("%s: got %s, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestShift(t *testing.T) {
	if got, want := Shift(-time.Hour), "CHAOS_CLOCK_SHIFT=-1h0m0s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNoGoCommand(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Build(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "executable file not found") {
		t.Errorf("got %v, want that there is no go command", err)
	}
}
