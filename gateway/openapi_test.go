package gateway

import (
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/internal/wire"
)

// document is what the test reads of the description.
type document struct {
	Paths      map[string]map[string]operation
	Components struct {
		Schemas    map[string]schema
		Parameters map[string]struct{ Name, In, Description string }
		Responses  map[string]struct{ Description string }
	}
}

type operation struct {
	OperationID string `json:"operationId"`
	Summary     string
	Parameters  []ref
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	}
	Responses map[string]ref
	Security  *[]any
}

// ref refers to a component of the document.
type ref struct {
	Ref string `json:"$ref"`
}

// component returns the name of the component.
func (r ref) component() string { return path.Base(r.Ref) }

type schema struct {
	ref
	Type, Format         string
	Description          string
	Properties           map[string]schema
	Items                *schema
	AdditionalProperties any
	Required, Enum       []string
}

func readDocument(t *testing.T) (d document) {
	t.Helper()
	text, err := describe(routes)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestOpenAPIRoutes: the document has each method of each path, under a name of its own, and all
// that the operation refers to.
func TestOpenAPIRoutes(t *testing.T) {
	d := readDocument(t)
	names := make(map[string]bool)
	for _, r := range routes {
		op, ok := d.Paths[r.path][strings.ToLower(r.method())]
		if !ok || op.Summary == "" || names[op.OperationID] {
			t.Errorf("%s %s: got %+v, want an operation with a summary and a name of its own", r.method(), r.path, op)
		}
		names[op.OperationID] = true
		if _, isLimited := op.Responses["429"]; isLimited == r.isOpen {
			t.Errorf("%s %s: limited in its rate %v, want %v", r.method(), r.path, isLimited, !r.isOpen)
		}
		if isOpen := op.Security != nil && len(*op.Security) == 0; isOpen != r.isOpen {
			t.Errorf("%s %s: open to everybody %v, want %v", r.method(), r.path, isOpen, r.isOpen)
		}
		if (r.request == nil) != (op.RequestBody.Content == nil) {
			t.Errorf("%s %s: body %+v, want the one of %+v", r.method(), r.path, op.RequestBody, r.request)
		}
		for _, p := range op.Parameters {
			if d.Components.Parameters[p.component()].Name != p.component() {
				t.Errorf("%s %s: the document has no parameter %s", r.method(), r.path, p.Ref)
			}
		}
		for status, response := range op.Responses {
			if d.Components.Responses[response.component()].Description == "" && status != "200" {
				t.Errorf("%s %s: the document has no response %s", r.method(), r.path, response.Ref)
			}
		}
	}
	if len(names) != len(routes) {
		t.Errorf("the document has %d operations, the gateway %d routes", len(names), len(routes))
	}
}

// TestOpenAPIFields: the schemas have each field of the bodies with its type, and no other; and
// there is no schema that nothing uses.
func TestOpenAPIFields(t *testing.T) {
	d := readDocument(t)
	c := fieldChecker{t, d, make(map[string]bool)}
	for _, r := range routes {
		if r.request != nil {
			c.check(reflect.TypeOf(r.request))
		}
		if r.ok != nil {
			c.check(reflect.TypeOf(r.ok))
		}
	}
	c.check(reflect.TypeFor[wire.ErrorAnswer]())
	for name := range d.Components.Schemas {
		if !c.seen[name] {
			t.Errorf("nothing uses the schema %s", name)
		}
	}
}

type fieldChecker struct {
	t    *testing.T
	d    document
	seen map[string]bool
}

// check checks the schema of a struct.
func (c fieldChecker) check(typ reflect.Type) {
	name := typ.Name()
	if c.seen[name] {
		return
	}
	c.seen[name] = true
	s, ok := c.d.Components.Schemas[name]
	if !ok {
		c.t.Errorf("the document has no schema %s", name)
		return
	}
	left := maps.Clone(s.Properties)
	for _, f := range reflect.VisibleFields(typ) {
		tag := f.Tag.Get("json")
		if f.Anonymous || !f.IsExported() || tag == "-" {
			continue
		}
		field, options, _ := strings.Cut(tag, ",")
		p, ok := s.Properties[field]
		if !ok {
			c.t.Errorf("%s.%s is not in the document", name, field)
			continue
		}
		delete(left, field)
		if p.Description == "" && p.Ref == "" {
			c.t.Errorf("%s.%s has no description", name, field)
		}
		if isRequired := slices.Contains(s.Required, field); isRequired != (options == "") {
			c.t.Errorf("%s.%s: required %v, but its tag is %q", name, field, isRequired, tag)
		}
		c.checkType(name+"."+field, p, f.Type)
	}
	for field := range left {
		c.t.Errorf("the document has %s.%s, the struct has not", name, field)
	}
}

// checkType checks the type of one field.
func (c fieldChecker) checkType(field string, p schema, typ reflect.Type) {
	want := schema{}
	switch {
	case typ == reflect.TypeFor[time.Time]():
		want.Type, want.Format = "string", "date-time"
	case typ == reflect.TypeFor[json.RawMessage]():
	case typ.Kind() == reflect.Pointer:
		c.checkType(field, p, typ.Elem())
		return
	case typ.Kind() == reflect.Slice:
		want.Type = "array"
		if p.Items == nil {
			c.t.Errorf("%s has no items", field)
			return
		}
		c.checkType(field+"[]", *p.Items, typ.Elem())
	case typ.Kind() == reflect.Struct:
		if p.component() != typ.Name() {
			c.t.Errorf("%s refers to %q, want %q", field, p.component(), typ.Name())
		}
		c.check(typ)
	case typ.Kind() == reflect.Map:
		want.Type = "object"
	case typ.Kind() == reflect.Bool:
		want.Type = "boolean"
	case typ.Kind() == reflect.String:
		want.Type = "string"
	case typ.Kind() == reflect.Int, typ.Kind() == reflect.Int32, typ.Kind() == reflect.Int64:
		want.Type, want.Format = "integer", "int64"
	default:
		c.t.Errorf("%s: the test does not know the type %v", field, typ)
	}
	if p.Type != want.Type || p.Format != want.Format {
		c.t.Errorf("%s is a %q of format %q, want %q and %q", field, p.Type, p.Format, want.Type, want.Format)
	}
}

// TestOpenAPICodes: the document has each code of an error.
func TestOpenAPICodes(t *testing.T) {
	d := readDocument(t)
	described := slices.Sorted(slices.Values(d.Components.Schemas["Error"].Properties["code"].Enum))
	if known := slices.Sorted(maps.Keys(wire.Status)); !slices.Equal(described, known) {
		t.Errorf("codes in the document: %v, want %v", described, known)
	}
}
