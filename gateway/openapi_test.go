package gateway

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/internal/wire"
)

// document is what the test reads of openapi.json.
type document struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	Parameters  []struct{ Name, In string }
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema schema }
	}
	Security *[]any
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type, Format         string
	Description          string
	Properties           map[string]schema
	Items                *schema
	AdditionalProperties any
	Required, Enum       []string
}

// name returns the name of the schema that s refers to.
func (s schema) name() string { return strings.TrimPrefix(s.Ref, "#/components/schemas/") }

func readDocument(t *testing.T) (d document) {
	t.Helper()
	if err := json.Unmarshal(openAPI, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestOpenAPIRoutes: the document has each method of each path with its bodies, and no other.
func TestOpenAPIRoutes(t *testing.T) {
	d := readDocument(t)
	described := 0
	for _, methods := range d.Paths {
		described += len(methods)
	}
	if described != len(routes) {
		t.Errorf("the document has %d operations, the gateway %d routes", described, len(routes))
	}
	for _, r := range routes {
		op, ok := d.Paths[r.path][strings.ToLower(r.method)]
		if !ok {
			t.Errorf("not in the document: %s %s", r.method, r.path)
			continue
		}
		if got, want := op.RequestBody.Content["application/json"].Schema.name(), typeName(r.request); got != want {
			t.Errorf("%s %s: request %q, want %q", r.method, r.path, got, want)
		}
		if got, want := op.Responses["200"].Content["application/json"].Schema.name(), typeName(r.ok); got != want {
			t.Errorf("%s %s: answer %q, want %q", r.method, r.path, got, want)
		}
		if _, isLimited := op.Responses["429"]; isLimited == r.isOpen {
			t.Errorf("%s %s: limited in its rate %v, want %v", r.method, r.path, isLimited, !r.isOpen)
		}
		if isOpen := op.Security != nil && len(*op.Security) == 0; isOpen != r.isOpen {
			t.Errorf("%s %s: open to everybody %v, want %v", r.method, r.path, isOpen, r.isOpen)
		}
	}
	var parameters, known []string
	for _, p := range d.Paths["/v1/jobs"]["get"].Parameters {
		parameters = append(parameters, p.Name)
	}
	for _, p := range wire.Params {
		known = append(known, p.Name)
	}
	if !slices.Equal(parameters, known) {
		t.Errorf("parameters of /v1/jobs: %v, want %v", parameters, known)
	}
}

func typeName(v any) string {
	if v == nil {
		return ""
	}
	return reflect.TypeOf(v).Name()
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
		if p.name() != typ.Name() {
			c.t.Errorf("%s refers to %q, want %q", field, p.name(), typ.Name())
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
