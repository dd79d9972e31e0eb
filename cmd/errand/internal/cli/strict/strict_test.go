package strict_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/cmd/errand/internal/cli/strict"
)

// TestObject: what is wrong, and where.
func TestObject(t *testing.T) {
	var in struct {
		name  string
		list  []string
		n     int32
		yes   bool
		at    time.Time
		texts map[string]string
		raw   json.RawMessage
		inner string
	}
	inner := strict.Object{Fields: map[string]any{"inner": &in.inner}}
	o := strict.Object{Fields: map[string]any{
		"name": &in.name, "list": &in.list, "n": &in.n, "yes": &in.yes, "at": &in.at, "texts": &in.texts, "raw": &in.raw,
		"objects": strict.List(inner.Read),
	}}
	for text, want := range map[string]string{
		`{"name":"a","list":["b"],"n":-1,"yes":true,"at":"2026-01-31T15:04:05Z","texts":{"c":"d"},"raw":[1],"objects":[{"inner":"e"}]}`: "",
		`{"name":null,"raw":null}`:  "",
		``:                          "0 empty",
		` `:                         "0 empty",
		`{"name":"secret`:           "15 not one JSON value: it ends early",
		`{"name" "secret"}`:         "8 not one JSON value: invalid character '\"' after object key",
		"{\"name\":\"\xff\"}":       "9 not UTF-8",
		`{} {}`:                     "3 not one JSON value: invalid character '{' after top-level value",
		`"secret"`:                  "8 an object is expected",
		`[{}]`:                      "1 an object is expected",
		`{"Name":"secret"}`:         "7 Name: unknown field: did you mean name?",
		`{"secret":1}`:              "9 secret: unknown field: there are at, list, n, name, objects, raw, texts, yes",
		`{"n":1,"n":2}`:             "10 n: the field is there twice",
		`{"name":1234}`:             "7 name: a string is expected",
		`{"list":"secret"}`:         "7 list: a list of strings is expected",
		`{"list":[1]}`:              "7 list: a list of strings is expected",
		`{"n":"1"}`:                 "4 n: a whole number between -2147483648 and 2147483647 is expected",
		`{"n":1.5}`:                 "4 n: a whole number between -2147483648 and 2147483647 is expected",
		`{"n":3000000000}`:          "4 n: a whole number between -2147483648 and 2147483647 is expected",
		`{"yes":1}`:                 "6 yes: true or false is expected",
		`{"at":"secret"}`:           "5 at: a time such as 2026-01-31T15:04:05Z is expected",
		`{"texts":{"a":1}}`:         "8 texts: an object of strings is expected",
		`{"objects":{}}`:            "10 objects: a list is expected",
		`{"objects":[{},1]}`:        "16 objects[1]: an object is expected",
		`{"objects":[{"inner":2}]}`: "20 objects[0].inner: a string is expected",
	} {
		e := strict.Check([]byte(text))
		if e == nil {
			e = o.Read(json.NewDecoder(bytes.NewReader([]byte(text))))
		}
		got := ""
		if e != nil {
			got = fmt.Sprint(e.Offset, " ", e.Error())
		}
		if got != want {
			t.Errorf("%s:\n got %q\nwant %q", text, got, want)
		}
	}
}
