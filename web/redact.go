package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Field says which part of a job a [Value] is.
type Field string

// The fields that are redacted for people without the permission [Payload].
const (
	FieldPayload  Field = "payload"
	FieldHeader   Field = "header" // the value of one header
	FieldOutput   Field = "output"
	FieldProgress Field = "progress"
	FieldError    Field = "error" // also of a failure in the job's history
	FieldStack    Field = "stack"
)

// Value is a stored text of a job.
type Value struct {
	Kind  string // the job's
	Field Field
	Name  string // of the header; "" for other fields
	Text  string // JSON if Field is FieldPayload, FieldOutput or FieldProgress
}

// Shape is what [Options].Redact is by default. Of JSON it returns the shape: the keys, and the
// types of the values. Of an error text it returns the words: what is in quotes, and words with a
// digit or an @, are left out, so that an operator can still tell one error from another. That may
// leave a name in an error that has it unquoted; give a Redact that returns "" for FieldError if
// your errors have such names. Stacks have file names and function names only and stay. Of a header
// it says how long it is.
func Shape(v Value) string {
	switch v.Field {
	case FieldPayload, FieldOutput:
		return shapeOf([]byte(v.Text))
	case FieldProgress:
		if isNumber(v.Text) {
			return v.Text
		}
		return shapeOf([]byte(v.Text))
	case FieldError:
		return maskError(v.Text)
	case FieldStack:
		return v.Text
	}
	return plural(int64(len(v.Text)), "byte")
}

// isNumber reports whether the JSON text is a number.
func isNumber(text string) bool {
	var n json.Number
	return json.Unmarshal([]byte(text), &n) == nil && !strings.HasPrefix(strings.TrimSpace(text), `"`)
}

const (
	shapeDepth = 6   // deeper values are left out
	shapeKeys  = 40  // of one object
	shapeKey   = 100 // characters of a key
)

// shapeOf returns the keys and the types of a JSON value, over several lines.
func shapeOf(text []byte) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var b strings.Builder
	if err := writeShape(&b, d, 0); err != nil {
		return "not readable as JSON"
	}
	return b.String()
}

// writeShape writes the shape of the next value of d.
func writeShape(b *strings.Builder, d *json.Decoder, depth int) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return writeObject(b, d, depth)
		}
		return writeArray(b, d, depth)
	case string:
		b.WriteString("string")
	case json.Number:
		b.WriteString("number")
	case bool:
		b.WriteString("boolean")
	default:
		b.WriteString("null")
	}
	return nil
}

// writeObject writes the shape of an object whose brace has been read.
func writeObject(b *strings.Builder, d *json.Decoder, depth int) error {
	n := 0
	out := b
	if depth >= shapeDepth {
		out = new(strings.Builder) // read on, and write nothing
	}
	out.WriteString("{")
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if n++; n == shapeKeys+1 {
			out.WriteString("\n" + strings.Repeat("  ", depth+1) + "…")
		}
		into := out
		if n > shapeKeys {
			into = new(strings.Builder)
		}
		name, err := json.Marshal(cut(fmt.Sprint(key), shapeKey))
		if err != nil {
			return err
		}
		fmt.Fprintf(into, "\n%s%s: ", strings.Repeat("  ", depth+1), name)
		if err := writeShape(into, d, depth+1); err != nil {
			return err
		}
	}
	if n > 0 {
		out.WriteString("\n" + strings.Repeat("  ", depth))
	}
	out.WriteString("}")
	if out != b {
		fmt.Fprintf(b, "{%s}", plural(int64(n), "key"))
	}
	_, err := d.Token()
	return err
}

// writeArray writes the shape of an array whose bracket has been read: that of its first element,
// and how many elements there are.
func writeArray(b *strings.Builder, d *json.Decoder, depth int) error {
	var first strings.Builder
	n := 0
	for ; d.More(); n++ {
		into := &first
		if n > 0 {
			into = new(strings.Builder)
		}
		if err := writeShape(into, d, depth); err != nil {
			return err
		}
	}
	if n == 0 {
		b.WriteString("[]")
	} else {
		fmt.Fprintf(b, "[%d × %s]", n, first.String())
	}
	_, err := d.Token()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

var (
	quoted = regexp.MustCompile(`"[^"]*"|'[^']*'|` + "`[^`]*`" + `|\([^()]*\)=\([^()]*\)`)
	valued = regexp.MustCompile(`\S*[0-9@]\S*`)
)

// maskError returns an error text without what is likely a value.
func maskError(text string) string {
	return valued.ReplaceAllString(quoted.ReplaceAllString(text, "…"), "…")
}

// shown returns a stored text as the person may see it.
func (q *request) shown(v Value) string {
	if v.Text == "" {
		return ""
	}
	if !q.may(Payload) {
		return plain(q.h.options.Redact(v))
	}
	return plain(v.Text)
}
