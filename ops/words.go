package ops

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// count returns a number with its noun: "1 job", "2 jobs". one is the noun for one.
func count[T int | int64](n T, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// maxNamed is how many names one line has at most.
const maxNamed = 5

// enumerate joins names by commas: the first five, and how many more there are.
func enumerate(names []string) string {
	if n := len(names) - maxNamed; n > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:maxNamed], ", "), n)
	}
	return strings.Join(names, ", ")
}

// oneLine returns text with its control characters as Go writes them, \n for example. Names of
// queues that errand has not written may have some.
func oneLine(text string) string {
	var line strings.Builder
	for _, r := range text {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) {
			line.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			line.WriteRune(r)
		}
	}
	return line.String()
}
