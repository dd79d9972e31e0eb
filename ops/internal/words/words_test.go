package words

import "testing"

// TestWords: numbers have the right form of their noun, and long lists are cut.
func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Count(0, "worker"), "0 workers"},
		{Count(1, "worker"), "1 worker"},
		{Count(int64(2), "due job"), "2 due jobs"},
		{Enumerate(nil), ""},
		{Enumerate([]string{"a", "b", "c", "d", "e"}), "a, b, c, d, e"},
		{Enumerate([]string{"a", "b", "c", "d", "e", "f", "g"}), "a, b, c, d, e, and 2 more"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
