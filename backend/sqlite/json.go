package sqlite

import (
	"strconv"

	"github.com/errandhq/errand/backend/internal/sqlkit"
)

// A list is sent to SQLite as one text parameter: a JSON array, which json_each reads. So one short
// statement serves any number of jobs with every driver. With a parameter for each value a
// statement would soon have too many.

// list builds a JSON array. The zero value is an empty one.
type list struct{ text []byte }

func (l *list) next() {
	if len(l.text) == 0 {
		l.text = append(l.text, '[')
	} else if last := l.text[len(l.text)-1]; last != '[' {
		l.text = append(l.text, ',')
	}
}

func (l *list) int(n int64) {
	l.next()
	l.text = strconv.AppendInt(l.text, n, 10)
}

func (l *list) null() {
	l.next()
	l.text = append(l.text, "null"...)
}

func (l *list) string(s string) { appendString(l, s) }

func (l *list) bytes(b []byte) { appendString(l, b) }

// begin begins an array within the array, and end ends it.
func (l *list) begin() {
	l.next()
	l.text = append(l.text, '[')
}

func (l *list) end() { l.text = append(l.text, ']') }

func (l *list) String() string {
	if len(l.text) == 0 {
		return "[]"
	}
	return string(append(l.text, ']'))
}

// appendString appends s, which is valid UTF-8 without NUL, as a JSON string.
func appendString[T string | []byte](l *list, s T) {
	const hex = "0123456789abcdef"
	l.next()
	l.text = append(l.text, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		l.text = append(l.text, s[from:i]...)
		from = i + 1
		if c < 0x20 {
			l.text = append(l.text, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		} else {
			l.text = append(l.text, '\\', c)
		}
	}
	l.text = append(l.text, s[from:]...)
	l.text = append(l.text, '"')
}

func stringList(texts []string) string {
	var l list
	for _, s := range texts {
		l.string(s)
	}
	return l.String()
}

// headersText returns the stored form of a job's headers, or nil, for NULL, if it has none.
func headersText(h map[string]string) any {
	if len(h) == 0 {
		return nil
	}
	return sqlkit.EncodeHeaders(h)
}
