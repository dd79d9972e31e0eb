package ops

import (
	"slices"
	"strings"
)

// statements are those that a check has run.
type statements struct{ ran []string }

// note remembers a statement, once.
func (s *statements) note(text string) {
	if text = strings.TrimSpace(text); !slices.Contains(s.ran, text) {
		s.ran = append(s.ran, text)
	}
}

// take returns the statements since the last call.
func (s *statements) take() string {
	text := strings.Join(s.ran, ";\n")
	s.ran = nil
	return text
}
