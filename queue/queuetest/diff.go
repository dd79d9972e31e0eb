package queuetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode"
)

// decode reads a JSON value and leaves numbers as they are written.
func decode(p json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// difference is a place at which two JSON values differ.
type difference struct {
	path      string // such as Items[2].Name; "" is the value as a whole
	got, want any    // as decoded, or none
}

// none stands for a member or element that one of the values lacks.
type none struct{}

// diff returns where two decoded values differ as JSON: the order of members does not count, and
// numbers are compared by their exact values. path is where the values were found.
func diff(path string, got, want any) (all []difference) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		both := maps.Clone(g)
		maps.Copy(both, w)
		for _, name := range slices.Sorted(maps.Keys(both)) {
			all = append(all, diff(memberPath(path, name), memberOf(g, name), memberOf(w, name))...)
		}
		return all
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		for i := range max(len(g), len(w)) {
			all = append(all, diff(fmt.Sprintf("%s[%d]", path, i), elementOf(g, i), elementOf(w, i))...)
		}
		return all
	case json.Number:
		if g, ok := got.(json.Number); ok && sameNumber(g, w) {
			return nil
		}
	default: // a string, a bool, nil, none
		if got == want {
			return nil
		}
	}
	return []difference{{path, got, want}}
}

func memberOf(members map[string]any, name string) any {
	if v, ok := members[name]; ok {
		return v
	}
	return none{}
}

func elementOf(elements []any, i int) any {
	if i < len(elements) {
		return elements[i]
	}
	return none{}
}

func sameNumber(a, b json.Number) bool {
	x, okX := new(big.Rat).SetString(string(a))
	y, okY := new(big.Rat).SetString(string(b))
	if !okX || !okY { // an exponent far beyond what a backend accepts
		return a == b
	}
	return x.Cmp(y) == 0
}

// memberPath returns the path of an object's member.
func memberPath(path, name string) string {
	odd := func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	switch {
	case name == "" || strings.ContainsFunc(name, odd):
		return fmt.Sprintf("%s[%q]", path, name)
	case path == "":
		return name
	}
	return path + "." + name
}

// isWithin reports whether path is outer or beneath it.
func isWithin(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

func (d difference) String() string {
	got, want := abridge(text(d.got), text(d.want))
	s := fmt.Sprintf("got %s, want %s", got, want)
	if d.path != "" {
		return d.path + ": " + s
	}
	return s
}

// text returns the value as JSON that a person can read.
func text(v any) string {
	if v == (none{}) {
		return "none"
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// abridge cuts long texts down to where they begin to differ.
func abridge(got, want string) (string, string) {
	const most, before = 100, 20
	start := 0
	if max(len(got), len(want)) > most {
		for start < min(len(got), len(want)) && got[start] == want[start] {
			start++
		}
		start = max(start-before, 0)
	}
	return window(got, start, most), window(want, start, most)
}

// window returns what s holds from start on, at most that many bytes.
func window(s string, start, most int) string {
	end := min(start+most, len(s))
	shown := strings.ToValidUTF8(s[start:end], "") // without the runes that were cut in two
	if start > 0 {
		shown = "…" + shown
	}
	if end < len(s) {
		shown += "…"
	}
	return shown
}
