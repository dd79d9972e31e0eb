package plain_test

import (
	"os/exec"
	"testing"

	"github.com/errandhq/errand/internal/plain"
)

// TestShellQuote: a shell reads each quoted word as it was.
func TestShellQuote(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no POSIX shell on this machine")
	}
	for word, want := range map[string]string{
		"email.welcome":             "email.welcome",
		"größe-2":                   "größe-2",
		"sqlite:/var/a.db":          "sqlite:/var/a.db",
		"postgres://u@h:5432/shop":  "postgres://u@h:5432/shop",
		"postgres://h/shop?a=b&c=d": "'postgres://h/shop?a=b&c=d'",
		"":                          "''",
		"two words":                 "'two words'",
		"it's":                      `'it'\''s'`,
		"$(reboot)":                 "'$(reboot)'",
		"a`b`;c|d>e*?[~#!\\\"\n":    "'a`b`;c|d>e*?[~#!\\\"\n'",
		"~":                         "'~'",
	} {
		got := plain.ShellQuote(word)
		if got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
		read, err := exec.Command(sh, "-c", "printf %s "+got).Output()
		if err != nil || string(read) != word {
			t.Errorf("%q: the shell reads %q, %v", word, read, err)
		}
	}
}
