package plain_test

import (
	"slices"
	"testing"

	"github.com/errandhq/errand/internal/plain"
)

func TestNearest(t *testing.T) {
	names := []string{"email", "emails", "reports", "mail", "e"}
	for name, want := range map[string][]string{
		"emial":   {"email"},
		"email":   {"emails", "mail"}, // a name is not like itself
		"reprots": {"reports"},
		"x":       {"e"},
		"nothing": nil,
		"":        {"e"},
	} {
		if got := plain.Nearest(name, names); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}
