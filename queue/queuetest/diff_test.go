package queuetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/errandhq/errand/queue"
	"pgregory.net/rapid"
)

// differences shows how two JSON texts differ.
func differences(t testing.TB, got, want string) []string {
	t.Helper()
	g, errG := decode(json.RawMessage(got))
	w, errW := decode(json.RawMessage(want))
	if errG != nil || errW != nil {
		t.Fatalf("decode: %v, %v", errG, errW)
	}
	var all []string
	for _, d := range diff("", g, w) {
		all = append(all, d.String())
	}
	return all
}

func TestDiff(t *testing.T) {
	tests := []struct{ got, want, differ string }{
		{`{"a":1,"b":[true,null]}`, ` {"b" : [true, null], "a" : 1.0}`, ""},
		{`[1e2, -0, 0.10, 9007199254740993]`, `[100, 0.0, 1e-1, 9007199254740993.0]`, ""},
		{`9007199254740993`, `9007199254740992`, "got 9007199254740993, want 9007199254740992"},
		{`1e99999999999`, `2`, "got 1e99999999999, want 2"},
		{`1`, `"1"`, `got 1, want "1"`},
		{`null`, `{}`, "got null, want {}"},
		{`{}`, `[]`, "got {}, want []"},
		{`[]`, `null`, "got [], want null"},
		{`false`, `true`, "got false, want true"},
		{`{"a":null}`, `{}`, "a: got null, want none"},
		{`{}`, `{"a":{"b":[1]}}`, `a: got none, want {"b":[1]}`},
		{`{"a":{"b":[0,{"c":1}]}}`, `{"a":{"b":[0,{"c":2},3]}}`, "a.b[1].c: got 1, want 2; a.b[2]: got none, want 3"},
		{`{"a b":{"":1,"é_-9":2}}`, `{"a b":{"":0,"é_-9":0}}`, `["a b"][""]: got 1, want 0; ["a b"].é_-9: got 2, want 0`},
		{`"<&>"`, `"é"`, `got "<&>", want "é"`},
		{`"` + strings.Repeat("é", 60) + `x"`, `"` + strings.Repeat("é", 60) + `y"`,
			`got …` + strings.Repeat("é", 10) + `x", want …` + strings.Repeat("é", 10) + `y"`},
		{`"` + strings.Repeat("é", 60) + `"`, `1`, `got "` + strings.Repeat("é", 49) + "…, want 1"},
	}
	for _, tt := range tests {
		if differ := strings.Join(differences(t, tt.got, tt.want), "; "); differ != tt.differ {
			t.Errorf("%s and %s:\n got %s\nwant %s", tt.got, tt.want, differ, tt.differ)
		}
	}
}

func TestWithin(t *testing.T) {
	tests := []struct {
		path, outer string
		want        bool
	}{
		{"a", "a", true}, {"a.b", "a", true}, {"a[0].b", "a", true}, {"a[0].b", "a[0]", true}, {"a", "", true},
		{"ab", "a", false}, {"a", "a.b", false}, {"b.a", "a", false}, {"", "a", false},
	}
	for _, tt := range tests {
		if got := isWithin(tt.path, tt.outer); got != tt.want {
			t.Errorf("%q within %q: got %v, want %v", tt.path, tt.outer, got, tt.want)
		}
	}
}

// TestDiffIsEmptyForEquals: for any two values, however they are spelled.
func TestDiffIsEmptyForEquals(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		got := value(rt, 3)
		want := changed(rt, got)
		spelling := rand.New(rand.NewSource(rapid.Int64().Draw(rt, "spelling")))
		g, w := spell(spelling, got), spell(spelling, want)
		differ := differences(t, g, w)
		if equal := reflect.DeepEqual(got, want); equal != (len(differ) == 0) {
			rt.Fatalf("%s and %s: differences %q, equal %v", g, w, differ, equal)
		}
		if back := differences(t, w, g); len(back) != len(differ) {
			rt.Fatalf("%s and %s: differences %q, and the other way round %q", g, w, differ, back)
		}
	})
}

// value draws a JSON value, whose numbers are tenths, nested that deep at most.
func value(rt *rapid.T, depth int) any {
	most := 5
	if depth == 0 {
		most = 3
	}
	switch rapid.IntRange(0, most).Draw(rt, "type") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(rt, "bool")
	case 2:
		return rapid.IntRange(-11, 11).Draw(rt, "tenths")
	case 3:
		return rapid.SampledFrom([]string{"", "1", "a", "null", "é\n"}).Draw(rt, "string")
	case 4:
		list := make([]any, rapid.IntRange(0, 3).Draw(rt, "elements"))
		for i := range list {
			list[i] = value(rt, depth-1)
		}
		return list
	}
	object := make(map[string]any)
	for range rapid.IntRange(0, 3).Draw(rt, "members") {
		object[rapid.SampledFrom([]string{"", "a", "b", "a.b"}).Draw(rt, "name")] = value(rt, depth-1)
	}
	return object
}

// changed draws a value that is v, or v but for one place.
func changed(rt *rapid.T, v any) any {
	switch v := v.(type) {
	case []any:
		if len(v) > 0 && rapid.Bool().Draw(rt, "within") {
			i := rapid.IntRange(0, len(v)-1).Draw(rt, "index")
			list := slices.Clone(v)
			list[i] = changed(rt, v[i])
			return list
		}
	case map[string]any:
		if len(v) > 0 && rapid.Bool().Draw(rt, "within") {
			name := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(rt, "member")
			object := maps.Clone(v)
			object[name] = changed(rt, v[name])
			return object
		}
	}
	if rapid.Bool().Draw(rt, "same") {
		return v
	}
	return value(rt, 2)
}

// spell writes v in one of the ways that JSON allows.
func spell(r *rand.Rand, v any) string {
	space := strings.Repeat(" ", r.Intn(2))
	switch v := v.(type) {
	case int:
		exact := fmt.Sprintf("%de-1", v)
		if v%10 == 0 {
			exact = fmt.Sprint(v / 10)
		}
		return []string{exact, fmt.Sprintf("%.1f", float64(v)/10), fmt.Sprintf("%d.0E-01", v)}[r.Intn(3)]
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = spell(r, v[i])
		}
		return "[" + space + strings.Join(parts, space+",") + "]"
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, spell(r, name)+space+":"+spell(r, v[name]))
		}
		r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		return "{" + strings.Join(parts, ","+space) + space + "}"
	case string:
		if r.Intn(2) == 0 {
			v = strings.ReplaceAll(fmt.Sprintf("%+q", v), `\n`, `\u000A`)
			return strings.ReplaceAll(v, "a", `\u0061`)
		}
		return text(v)
	}
	return text(v)
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.50,"x"],"b":null}`), []byte(`{"b":null,"a":[1.0,25e-1,"x"]}`))
	f.Add([]byte(`"\ud83d\ude00"`), []byte(`[[[]],{"":{"a b":-0}}]`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, p := range [][]byte{a, b} {
			if (&queue.Job{Kind: "k", Payload: p}).Check(0) != nil || p == nil {
				return // no backend has taken it
			}
		}
		if same := differences(t, string(a), string(a)); len(same) > 0 {
			t.Errorf("%s differs from itself: %q", a, same)
		}
		differ, back := differences(t, string(a), string(b)), differences(t, string(b), string(a))
		if len(differ) != len(back) {
			t.Errorf("%s and %s: differences %q, and the other way round %q", a, b, differ, back)
		}
		for _, d := range differ {
			if !utf8.ValidString(d) {
				t.Errorf("%s and %s: a difference is no valid UTF-8: %q", a, b, d)
			}
		}
	})
}
