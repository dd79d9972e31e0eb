// Package shell writes words of command lines. It serves ops and cmd/errand.
package shell

import (
	"regexp"
	"strings"
)

// plain is a word of letters and digits of any language, and of signs that mean nothing to a shell.
var plain = regexp.MustCompile(`^[\pL\pN_./:@%+,-]+$`)

// IsPlain reports whether a shell takes word as it is. The empty word it does not.
func IsPlain(word string) bool { return plain.MatchString(word) }

// Quote returns word as a POSIX shell reads it: as it is, or in quotes.
func Quote(word string) string {
	if IsPlain(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
