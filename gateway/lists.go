package gateway

import (
	"io"

	"github.com/errandhq/errand/internal/wire"
)

// lists passes on the JSON of a request, and fails as soon as a list in the outer object has more
// than most elements. It is for the time before the text is decoded: `0,` takes two bytes, and the
// job that it would become a hundred times as many.
type lists struct {
	io.Reader
	most int

	depth     int  // how many objects and lists are open
	elements  int  // of the list, so far
	isText    bool // in a string
	isEscaped bool // after its \
}

// Read implements [io.Reader].
func (l *lists) Read(p []byte) (n int, err error) {
	n, err = l.Reader.Read(p)
	for _, c := range p[:n] {
		if l.see(c); l.elements > l.most {
			e := failed(wire.CodeTooLarge, "a list of more than %d elements", l.most)
			e.Field = "body"
			return 0, e
		}
	}
	return n, err
}

// see counts an element at its end.
func (l *lists) see(c byte) {
	switch {
	case l.isEscaped:
		l.isEscaped = false
	case l.isText:
		l.isText, l.isEscaped = c != '"', c == '\\'
	case c == '"':
		l.isText = true
	case c == '[', c == '{':
		if l.depth++; l.depth == 2 {
			l.elements = 1
		}
	case c == ']', c == '}':
		l.depth--
	case c == ',' && l.depth == 2:
		l.elements++
	}
}
