package payload

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestValue(t *testing.T) {
	for _, same := range [][]string{
		{`{"a":1,"b":[2,{}]}`, ` { "b" : [20e-1, { }], "a" : 0, "\u0061" : 1.00 }`},
		{`100`, `1e2`, `100.0`, `0.01E+4`, `1000000e-4`},
		{`0`, `-0`, `0.000`, `-0e99`},
		{`"\ud83d\ude00/\\ud800"`, "\"\U0001f600\\/\\\\ud800\""},
		{`-1.5e-7`, `-0.00000015`},
		{`"\u001e"`, `"\u001E"`},
	} {
		first, ok := Value([]byte(same[0]))
		for _, text := range same {
			if got, here := Value([]byte(text)); !ok || !here || got != first {
				t.Errorf("%s and %s: not the same value", same[0], text)
			}
		}
	}
	seen := make(map[string]string)
	for _, text := range []string{`1`, `-1`, `10`, `0.1`, `"1"`, `[1]`, `[[1]]`, `[1,1]`, `{"1":1}`, `{"1":[]}`, `{}`, `[]`, `null`, `"null"`, `true`,
		`9007199254740992`, `9007199254740993`, `"\ufffd"`, `"\ud83d\ude00"`, `"a\\"`, `"a"`} {
		got, ok := Value([]byte(text))
		if other, twice := seen[got]; twice || !ok {
			t.Errorf("%s: %v, and the same as %q", text, ok, other)
		}
		seen[got] = text
	}
	for _, text := range []string{``, `1 2`, "\"\xff\"", `"\ud800"`, `"\udc00"`, `"\ud800\ud800\udc00"`, `"\ud800x"`, `"\ud800\n"`, `["\ud800","\udc00"]`} {
		if _, ok := Value([]byte(text)); ok {
			t.Errorf("%q: is a value", text)
		}
	}
}

// TestFates: a drawn document is JSON, and a payload with a flaw is not, unless it only exceeds a
// limit of errand's.
func TestFates(t *testing.T) {
	fates := make(map[Fate]int)
	for n := len(named); n < len(named)+1000; n++ {
		p := Of(n, rand.New(rand.NewPCG(1, uint64(n))))
		fates[p.Fate]++
		_, ok := Value(p.Text)
		if p.Fate == Kept && (!ok || len(p.Text) > Limit) {
			t.Errorf("%d, %s: no value, or too long: %q", n, p.Name, p.Text)
		}
		if p.Fate == Refused && ok && !strings.Contains(string(p.Text), `\u0000`) && len(p.Text) < 1000 && !strings.ContainsAny(string(p.Text), "eE") {
			t.Errorf("%d, %s: a value: %q", n, p.Name, p.Text)
		}
	}
	if fates[Kept] < 500 || fates[Refused] < 100 || fates[Either] < 50 {
		t.Errorf("got %v", fates)
	}
	for n := range named {
		if strings.HasPrefix(named[n].name, "300 MB") {
			continue
		}
		p := Of(n, nil)
		if _, ok := Value(p.Text); p.Fate == Kept && (!ok || len(p.Text) > Limit) {
			t.Errorf("%s: no value, or too long", p.Name)
		}
	}
}

func TestSameDrawsSamePayload(t *testing.T) {
	for n := range 200 {
		draw := func() string { return string(Of(1000+n, rand.New(rand.NewPCG(7, uint64(n)))).Text) }
		if first, again := draw(), draw(); first != again {
			t.Fatalf("%d: not the same: %q and %q", n, first, again)
		}
	}
}
