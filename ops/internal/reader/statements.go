package reader

import (
	"fmt"
	"slices"
	"strings"
)

// statements are those that a check has run.
type statements struct{ ran []string }

// Note remembers a statement, once, with its parameters in a comment before it.
func (s *statements) Note(text string, args ...any) {
	text = strings.TrimSpace(text)
	if len(args) > 0 {
		values := make([]string, len(args))
		for i, arg := range args {
			values[i] = fmt.Sprintf("$%d = %q", i+1, fmt.Sprint(arg)) // on one line
		}
		text = "-- " + strings.Join(values, ", ") + "\n" + text
	}
	if !slices.Contains(s.ran, text) {
		s.ran = append(s.ran, text)
	}
}

// Take returns the statements since the last call.
func (s *statements) Take() string {
	text := strings.Join(s.ran, ";\n")
	s.ran = nil
	return text
}
