package plain

import (
	"regexp"
	"strings"
)

// shellWord is a word of letters and digits of any language, and of signs that mean nothing to a
// shell.
var shellWord = regexp.MustCompile(`^[\pL\pN_./:@%+,-]+$`)

// IsShellWord reports whether a shell takes word as it is. The empty word it does not.
func IsShellWord(word string) bool { return shellWord.MatchString(word) }

// ShellQuote returns word as a POSIX shell reads it: as it is, or in quotes.
func ShellQuote(word string) string {
	if IsShellWord(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
