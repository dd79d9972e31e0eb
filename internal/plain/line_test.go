package plain_test

import (
	"testing"

	"github.com/errandhq/errand/internal/plain"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"näme 世界":            "näme 世界",
		"a\nb\tc":            `a\nb\tc`,
		"\x1b[31m\x00":       `\x1b[31m\x00`,
		"\u202e\u2028\u200b": `\u202e\u2028\u200b`,
		"\xff\U000e0001":     `\xff\U000e0001`,
	} {
		if got := plain.Line(text); got != want || plain.Line(got) != got {
			t.Errorf("%q: got %q, and of that %q; want %q", text, got, plain.Line(got), want)
		}
	}
}
