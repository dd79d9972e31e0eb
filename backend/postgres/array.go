package postgres

import "strconv"

// Arrays travel to the server as one text parameter each, cast in the statement: that works with
// every driver and in every query mode. The syntax is that of
// https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO.

// array builds an array literal. The zero value is an empty array.
type array struct{ text []byte }

// numbers is an empty array with room for n numbers.
func numbers(n int) array { return array{make([]byte, 0, 12*n+1)} }

func (a *array) next() {
	if len(a.text) == 0 {
		a.text = append(a.text, '{')
	} else {
		a.text = append(a.text, ',')
	}
}

func (a *array) int(n int64) {
	a.next()
	a.text = strconv.AppendInt(a.text, n, 10)
}

func (a *array) bool(b bool) {
	a.next()
	a.text = strconv.AppendBool(a.text, b)
}

// raw appends an element as it stands in the literal.
func (a *array) raw(s string) {
	a.next()
	a.text = append(a.text, s...)
}

func (a *array) string(s string) {
	a.next()
	a.text = append(a.text, '"')
	from := 0
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			a.text = append(a.text, s[from:i]...)
			a.text = append(a.text, '\\')
			from = i
		}
	}
	a.text = append(a.text, s[from:]...)
	a.text = append(a.text, '"')
}

func (a *array) String() string {
	if len(a.text) == 0 {
		return "{}"
	}
	return string(append(a.text, '}'))
}

func textArray(list []string) string {
	var a array
	for _, s := range list {
		a.string(s)
	}
	return a.String()
}
