package postgres_test

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
)

// parseArray reads an array literal by the rules of PostgreSQL's manual, §8.15.6,
// as far as errand writes them: every element is quoted.
func parseArray(t *testing.T, text string) (list []string) {
	t.Helper()
	if len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' {
		t.Fatalf("%q is not in braces", text)
	}
	body := text[1 : len(text)-1]
	for i := 0; i < len(body); i++ {
		if len(list) > 0 {
			if body[i] != ',' {
				t.Fatalf("%q: no comma at %d", text, i+1)
			}
			i++
		}
		if body[i] != '"' {
			t.Fatalf("%q: no quote at %d", text, i+1)
		}
		var element []byte
		for i++; body[i] != '"'; i++ {
			if body[i] == '\\' {
				i++
			}
			element = append(element, body[i])
		}
		list = append(list, string(element))
	}
	return list
}

func FuzzTextArray(f *testing.F) {
	f.Add("a", "b")
	f.Add(`"`, `\`)
	f.Add(`{"a": "\"x\\"}`, "NULL")
	f.Add("", ",{}")
	f.Fuzz(func(t *testing.T, a, b string) {
		list := []string{a, b}
		if got := parseArray(t, postgres.TextArray(list)); !slices.Equal(got, list) {
			t.Errorf("got %q, want %q", got, list)
		}
	})
}

// TestTextArray asks the server itself.
func TestTextArray(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	for _, s := range []string{"", "a", `"`, `\`, `\"`, "NULL", "{}", ",", " x ", "\t\n\r", "é😀", `{"a": "\\"}`, `'`, "$1", "\\x00"} {
		if !utf8.ValidString(s) {
			t.Fatalf("%q is not UTF-8", s)
		}
		got := value[bool](t, db, `SELECT $1::text::text[] = ARRAY[$2::text, 'end']`, postgres.TextArray([]string{s, "end"}), s)
		if !got {
			t.Errorf("the server reads %q otherwise", s)
		}
	}
	if got := postgres.TextArray(nil); got != "{}" {
		t.Errorf("no elements: %q, want {}", got)
	}
}
