// Package strict reads JSON that people write: lines of jobs, and files of tokens. It refuses
// unknown, misspelt and repeated fields, which are likely to be mistakes. Errors name the field and
// the place, but never repeat a value, because it may be a secret.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/errandhq/errand/internal/plain"
)

// Error says what is wrong with a field, or with the whole text if Field is "".
type Error struct {
	Field   string
	Offset  int64 // of the place in the text, in bytes
	Problem string
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

// Check returns an error unless text is one JSON value in UTF-8.
func Check(text []byte) *Error {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return &Error{Problem: "empty"}
	case !utf8.Valid(text):
		return &Error{Problem: "not UTF-8", Offset: invalidAt(text)}
	case json.Valid(text):
		return nil
	}
	e := &Error{Problem: "not one JSON value: it ends early", Offset: int64(len(text))}
	err := json.Unmarshal(text, new(json.RawMessage))
	if s, ok := errors.AsType[*json.SyntaxError](err); ok && s.Offset < int64(len(text)) {
		e.Offset, e.Problem = max(s.Offset-1, 0), "not one JSON value: "+s.Error()
	}
	return e
}

// invalidAt returns where text stops to be UTF-8.
func invalidAt(text []byte) (at int64) {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			break
		}
		text, at = text[size:], at+int64(size)
	}
	return at
}

// Object reads objects whose fields are known.
type Object struct {
	// Fields has for each name where its value goes: a pointer, or a function that reads the value.
	Fields map[string]any
	// Begin is where the last object begins, and At where each field is that it has.
	Begin int64
	At    map[string]int64
}

// Reader is a function for [Object].Fields that reads a value itself.
type Reader = func(d *json.Decoder) *Error

// Read reads an object of a text that Check has accepted. null for a value says the same as no
// field.
func (o *Object) Read(d *json.Decoder) *Error {
	if o.At == nil {
		o.At = make(map[string]int64)
	}
	clear(o.At)
	if !enter(d, '{') {
		return &Error{Problem: "an object is expected", Offset: d.InputOffset()}
	}
	o.Begin = d.InputOffset()
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return &Error{Problem: "an object is expected", Offset: d.InputOffset()}
		}
		at := d.InputOffset()
		target, ok := o.Fields[name]
		if _, isAgain := o.At[name]; isAgain {
			return &Error{name, at, "the field is there twice"}
		}
		if !ok {
			return &Error{fmt.Sprintf("%.40s", name), at, "unknown field" + o.suggest(name)}
		}
		o.At[name] = at
		if e := readInto(d, target); e != nil {
			e.Field = join(name, e.Field)
			e.Offset = max(e.Offset, at)
			return e
		}
	}
	_, _ = d.Token()
	return nil
}

// suggest returns which field was meant.
func (o *Object) suggest(name string) string {
	names := slices.Sorted(maps.Keys(o.Fields))
	if near := plain.Nearest(name, names); len(near) > 0 {
		return ": did you mean " + near[0] + "?"
	}
	return ": there are " + strings.Join(names, ", ")
}

// List returns a Reader of a list that calls read for each element.
func List(read Reader) Reader {
	return func(d *json.Decoder) *Error {
		if !enter(d, '[') {
			return &Error{Problem: "a list is expected"}
		}
		for i := 0; d.More(); i++ {
			if e := read(d); e != nil {
				e.Field = join(fmt.Sprintf("[%d]", i), e.Field)
				return e
			}
		}
		_, _ = d.Token()
		return nil
	}
}

func join(outer, inner string) string {
	if inner != "" && inner[0] != '[' {
		return outer + "." + inner
	}
	return outer + inner
}

// enter reports whether the next token begins an object or a list.
func enter(d *json.Decoder, begin json.Delim) bool {
	token, err := d.Token()
	return err == nil && token == begin
}

// readInto reads a value.
func readInto(d *json.Decoder, target any) *Error {
	if read, ok := target.(Reader); ok {
		return read(d)
	}
	if err := d.Decode(target); err != nil && !errors.Is(err, io.EOF) {
		return &Error{Problem: nameOf(reflect.TypeOf(target).Elem()) + " is expected"}
	}
	return nil
}

// nameOf returns what JSON calls values of a type.
func nameOf(typ reflect.Type) string {
	if typ == reflect.TypeFor[time.Time]() {
		return "a time such as 2026-01-31T15:04:05Z"
	}
	switch typ.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list of strings"
	case reflect.Map:
		return "an object of strings"
	}
	bits := typ.Bits()
	return fmt.Sprintf("a whole number between %d and %d", int64(-1)<<(bits-1), int64(1)<<(bits-1)-1)
}
