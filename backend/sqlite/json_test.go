package sqlite_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/errandhq/errand/backend/sqlite"
)

// FuzzList: what goes to SQLite in a list comes out as it was.
func FuzzList(f *testing.F) {
	var controls []byte
	for c := byte(1); c < 0x20; c++ {
		controls = append(controls, c)
	}
	for _, s := range []string{"", "plain", `"quoted" \ back`, string(controls) + "\x7f", "ünï \u2028 漢字 𝄞", `\u0041`, "[1, null]"} {
		f.Add(s)
	}
	db := open(f, drivers[0], dsn(f))
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			t.Skip() // refused before it gets there
		}
		for i, want := range []string{s, "x", s} {
			if got := value[string](t, db, `SELECT value FROM json_each(?1) WHERE key = ?2`, sqlite.List([]string{s, "x", s}), i); got != want {
				t.Errorf("element %d of a list with %q: got %q, want %q", i, s, got, want)
			}
		}
	})
}
