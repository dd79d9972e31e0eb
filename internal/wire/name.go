package wire

import (
	"strings"
	"unicode"
)

// FieldName returns the JSON name of a field that an InvalidError names, such as "max_attempts" for
// "MaxAttempts".
func FieldName(field string) string {
	if i := strings.LastIndex(field, "."); i >= 0 {
		field = field[i+1:]
	}
	switch field {
	case "Delay", "MaxDelay", "Lease", "RunningFor":
		return snake(field) + "_ns"
	}
	return snake(field)
}

// snake returns a name of Go in lower case, with _ between its words.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
