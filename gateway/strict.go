package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/errandhq/errand/internal/wire"
)

// checkBody returns an error that says in words of JSON why text is no value of the type. It is
// stricter than package json: no field may be unknown, written in different case, or there twice,
// and none that is required may be missing. Such a field is likely to be a mistake.
func checkBody(text []byte, typ reflect.Type) error {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return failed(wire.CodeMalformed, "the body is empty")
	case !utf8.Valid(text):
		return failed(wire.CodeMalformed, "the body is not UTF-8")
	case !json.Valid(text):
		err := json.Unmarshal(text, new(json.RawMessage))
		at := int64(len(text))
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = s.Offset
		}
		return failed(wire.CodeMalformed, "not one JSON value: byte %d: %v", at, err)
	}
	if e := (&strict{text: text}).check(typ); e != nil {
		return e
	}
	return nil
}

// strict reads a text that is valid JSON.
type strict struct {
	text []byte
	at   int
}

// check reads a value that is to be of the type. Errors name the field, from the value on.
func (s *strict) check(typ reflect.Type) *apiError {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	raw := s.peek()
	switch {
	case typ == reflect.TypeFor[json.RawMessage]():
		s.skip()
		return nil
	case typ == reflect.TypeFor[time.Time]():
		return s.time()
	}
	switch typ.Kind() {
	case reflect.Struct:
		return s.object(fieldsOf(typ))
	case reflect.Map:
		return s.object(fields{values: typ.Elem()})
	case reflect.Slice:
		return s.list(typ.Elem())
	case reflect.String:
		return s.expect(raw == '"', "a string")
	case reflect.Bool:
		return s.expect(raw == 't' || raw == 'f', "true or false")
	}
	return s.number(typ)
}

// object reads an object.
func (s *strict) object(known fields) *apiError {
	if s.peek() != '{' {
		return s.expect(false, "an object")
	}
	seen := make(map[string]bool)
	for s.next('{', '}') {
		name := s.name()
		typ, problem := known.find(name)
		if _, isAgain := seen[name]; isAgain {
			problem = "the field is there twice"
		}
		if problem != "" {
			return within(fmt.Sprintf("%.*s", maxEcho, name), failed(wire.CodeMalformed, "%s", problem))
		}
		s.peek()
		s.at++ // the colon
		if seen[name] = s.peek() != 'n' || typ == reflect.TypeFor[json.RawMessage](); !seen[name] && known.values == nil {
			s.skip() // null says the same as no field
		} else if e := s.check(typ); e != nil {
			return within(fmt.Sprintf("%.*s", maxEcho, name), e)
		}
	}
	for _, name := range known.required {
		if !seen[name] {
			return invalid(name, "missing")
		}
	}
	return nil
}

// list reads a list.
func (s *strict) list(elements reflect.Type) *apiError {
	if s.peek() != '[' {
		return s.expect(false, "a list")
	}
	for i := 0; s.next('[', ']'); i++ {
		if e := s.check(elements); e != nil {
			return within(fmt.Sprintf("[%d]", i), e)
		}
	}
	return nil
}

// within returns e as the error of a field of that name, or of an element such as "[2]".
func within(name string, e *apiError) *apiError {
	if e.Field != "" && !strings.HasPrefix(e.Field, "[") {
		name += "."
	}
	e.Field = name + e.Field
	return e
}

// number reads a whole number.
func (s *strict) number(typ reflect.Type) *apiError {
	from := s.at
	if e := s.expect(s.peek() == '-' || s.peek() >= '0' && s.peek() <= '9', "a whole number"); e != nil {
		return e
	}
	bits := typ.Bits()
	if _, err := strconv.ParseInt(string(s.text[from:s.at]), 10, bits); err != nil {
		return failed(wire.CodeMalformed, "%.*s: a whole number between %d and %d is expected", maxEcho, s.text[from:s.at],
			int64(-1)<<(bits-1), int64(1)<<(bits-1)-1)
	}
	return nil
}

// time reads a time.
func (s *strict) time() *apiError {
	from := s.at
	e := s.expect(s.peek() == '"', "a time")
	if e == nil && new(time.Time).UnmarshalJSON(s.text[from:s.at]) != nil {
		e = failed(wire.CodeMalformed, "%.*s: a time such as \"2026-01-31T15:04:05Z\" is expected", maxEcho, s.text[from:s.at])
	}
	return e
}

// expect reads a value. The error says what is expected unless isRight.
func (s *strict) expect(isRight bool, what string) *apiError {
	first := s.peek()
	s.skip()
	if isRight {
		return nil
	}
	got := "a number"
	switch first {
	case '{':
		got = "an object"
	case '[':
		got = "a list"
	case '"':
		got = "a string"
	case 't', 'f':
		got = "true or false"
	case 'n':
		got = "null"
	}
	return failed(wire.CodeMalformed, "%s where %s is expected", got, what)
}

// peek skips space, and returns the next byte.
func (s *strict) peek() byte {
	for strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
	return s.text[s.at]
}

// next goes to the next element of the list or object, and reports whether there is one.
func (s *strict) next(begin, end byte) bool {
	c := s.peek()
	if c == begin || c == ',' || c == end {
		s.at++
	}
	if c == begin && s.peek() == end {
		s.at++
		return false
	}
	return c != end
}

// name reads the name of a field.
func (s *strict) name() (name string) {
	s.peek()
	from := s.at
	s.skip()
	_ = json.Unmarshal(s.text[from:s.at], &name) // it is valid
	return name
}

// skip reads a value without a look into it.
func (s *strict) skip() {
	for depth := 0; ; {
		switch s.peek() {
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		case ',', ':':
			s.at++
			continue
		case '"':
			s.skipString()
		default:
			for s.at < len(s.text) && strings.IndexByte(",:]} \t\r\n", s.text[s.at]) < 0 {
				s.at++
			}
		}
		if depth == 0 {
			return
		}
	}
}

// skipString reads a string.
func (s *strict) skipString() {
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

// fields are the fields that an object may have.
type fields struct {
	types    map[string]reflect.Type
	required []string
	values   reflect.Type // if not nil, any names may be there, with values of this type
}

var fieldsByType sync.Map

// fieldsOf returns the fields of a struct, by their names in JSON.
func fieldsOf(typ reflect.Type) fields {
	if known, ok := fieldsByType.Load(typ); ok {
		return known.(fields)
	}
	all := fields{types: make(map[string]reflect.Type)}
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" || name == "-" {
			continue
		}
		all.types[name] = f.Type
		if options == "" {
			all.required = append(all.required, name)
		}
	}
	fieldsByType.Store(typ, all)
	return all
}

// find returns the type of a field, or what is wrong with its name.
func (f fields) find(name string) (typ reflect.Type, problem string) {
	if f.values != nil {
		return f.values, ""
	}
	if typ, ok := f.types[name]; ok {
		return typ, ""
	}
	for known := range f.types {
		if strings.EqualFold(known, name) {
			return nil, fmt.Sprintf("unknown field: did you mean %q?", known)
		}
	}
	return nil, "unknown field"
}
