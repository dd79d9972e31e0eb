// Package payload makes payloads that are hard to keep: valid JSON that databases do not accept,
// payloads at a limit or just beyond it, and text that is not JSON. It also decides, with its own
// code, whether two payloads have the same value.
package payload

import (
	"bytes"
	"math/rand/v2"
	"strings"
)

// Fate is what must happen to a payload.
type Fate int

// The fates. A kept payload comes back with the same value. A refused one gets an error that says
// so.
const (
	Kept Fate = iota
	Refused
	Either // decided by the payload itself: see [Value]
)

func (f Fate) String() string { return [...]string{"kept", "refused", "either"}[f] }

// Payload is a text, and what must happen to it.
type Payload struct {
	Name string
	Text []byte
	Fate Fate
}

// Limit is the longest payload that a queue takes by default, in bytes.
const Limit = 1 << 20

// Of returns the payload of a number: first the named ones, then random ones.
func Of(number int, draw *rand.Rand) Payload {
	if number < len(named) {
		n := named[number]
		return Payload{n.name, n.text(), n.fate}
	}
	switch draw.IntN(10) {
	case 0, 1:
		return Payload{"a document with a flaw", []byte(around(draw, flaw(draw))), Refused}
	case 2:
		return Payload{"a document with bytes changed", damage(draw, document(draw)), Either}
	}
	return Payload{"a document", []byte(document(draw)), Kept}
}

// named are made when they are used, because some are long.
var named = []struct {
	name string
	fate Fate
	text func() []byte
}{
	{"NUL, escaped", Refused, fixedText(`"a\u0000b"`)},
	{"NUL, escaped, in a key", Refused, fixedText(`{"\u0000": 1}`)},
	{"NUL, a backslash and u0000", Kept, fixedText(`"\\u0000"`)},
	{"NUL, a byte", Refused, fixedText("\"\x00\"")},
	{"2^53+1", Kept, fixedText(`9007199254740993`)},
	{"-(2^53+1)", Kept, fixedText(`{"n": -9007199254740993}`)},
	{"2^64 and 2^128", Kept, fixedText(`[18446744073709551616, 340282366920938463463374607431768211456]`)},
	{"1e400", Kept, fixedText(`1e400`)},
	{"1e-400", Kept, fixedText(`[1e-400, -1E-400]`)},
	{"1e4000 and 1e-4000", Kept, fixedText(`[1e4000, 1e-4000]`)},
	{"1e4001", Refused, fixedText(`1e4001`)},
	{"1e-4001", Refused, fixedText(`1e-4001`)},
	{"1e999999999999999999999", Refused, fixedText(`[1e999999999999999999999]`)},
	{"-0 and its like", Kept, fixedText(`[-0, 0.0, -0.0e10, 0e-5]`)},
	{"4,000 digits", Kept, func() []byte { return []byte(strings.Repeat("9", 4000)) }},
	{"4,000 digits behind the point", Kept, func() []byte { return []byte("0." + strings.Repeat("3", 3998)) }},
	{"4,001 digits", Refused, func() []byte { return []byte(strings.Repeat("9", 4001)) }},
	{"duplicate keys", Kept, fixedText(`{"a": 1, "b": {"c": 2, "c": [3]}, "a": {"z": null}}`)},
	{"duplicate keys, one of them escaped", Kept, fixedText(`{"a": 1, "\u0061": 2}`)},
	{"depth 1,000", Kept, deep("[", "]", 1000)},
	{"depth 1,000 of objects", Kept, deep(`{"a":`, "}", 1000)},
	{"depth 1,001", Refused, deep("[", "]", 1001)},
	{"depth 10,000", Refused, deep("[", "]", 10_000)},
	{"depth 10,000 of objects", Refused, deep(`{"a":`, "}", 10_000)},
	{"depth 500,000, not closed", Refused, func() []byte { return []byte(strings.Repeat("[", 500_000)) }},
	{"a lone high surrogate", Refused, fixedText(`"\ud800"`)},
	{"a lone low surrogate", Refused, fixedText(`["\udc00"]`)},
	{"two high surrogates", Refused, fixedText(`"\ud800\ud800\udc00"`)},
	{"a pair of surrogates", Kept, fixedText(`"\ud83d\ude00"`)},
	{"a surrogate and a letter", Refused, fixedText(`{"\ud83dx": 1}`)},
	{"noncharacters", Kept, fixedText(`"\uffff\ufffe\ufdd0"`)},
	{"every control character", Kept, fixedText(`"\u0001\u001e\u001f\u007f\u0080\u2028\u2029\b\f\n\r\t\/"`)},
	{"bad UTF-8", Refused, fixedText("\"\xff\"")},
	{"a surrogate in UTF-8", Refused, fixedText("\"\xed\xa0\x80\"")},
	{"overlong UTF-8", Refused, fixedText("\"\xc0\xaf\"")},
	{"UTF-8 cut short", Refused, fixedText("\"\xe6\xbc\"")},
	{"a byte order mark", Refused, fixedText("\ufeff{}")},
	{"nothing", Refused, fixedText(``)},
	{"white space", Refused, fixedText(" \n\t")},
	{"two values", Refused, fixedText(`{} {}`)},
	{"U+001E between values", Refused, fixedText("{}\x1e{}")},
	{"U+001E in a string", Refused, fixedText("\"\x1e\"")},
	{"NaN", Refused, fixedText(`NaN`)},
	{"-Infinity", Refused, fixedText(`-Infinity`)},
	{"a comment", Refused, fixedText(`{} -- x`)},
	{"SQL", Kept, fixedText(`"'); DROP TABLE errand.jobs; -- $1 \\' E'\\x1e' {1,2}"`)},
	{"null", Kept, fixedText(`null`)},
	{"10,000 keys", Kept, func() []byte { return []byte(keys(10_000)) }},
	{"a key of nearly 1 MB", Kept, func() []byte { return []byte(`{"` + strings.Repeat("k", Limit-6) + `":1}`) }},
	{"1 MB to the byte", Kept, func() []byte { return []byte(`"` + strings.Repeat("x", Limit-2) + `"`) }},
	{"1 MB and a byte", Refused, func() []byte { return []byte(`"` + strings.Repeat("x", Limit-1) + `"`) }},
	{"1 MB of escapes", Kept, func() []byte { return []byte(`"` + strings.Repeat(`\u0001`, (Limit-2)/6) + `"`) }},
	{"1 MB of brackets", Kept, func() []byte { return []byte("[" + strings.Repeat("[],", Limit/3-2) + "[]]") }},
	{"1 MB of digits", Kept, func() []byte { return []byte("[" + strings.Repeat("1,", Limit/2-2) + "1]") }},
	{"64 kB more of 1e308", Kept, func() []byte { return []byte("[" + strings.Repeat("1e308,", 210) + "1e308]") }},
	{"1 MB of 1e308", Refused, func() []byte { return []byte("[" + strings.Repeat("1e308,", 20_000) + "1e308]") }},
	{"1 MB of 1e4000", Refused, func() []byte { return []byte("[" + strings.Repeat("1e4000,", 149_000) + "1]") }},
	{"1 MB of 1E-3999", Refused, func() []byte { return []byte("[" + strings.Repeat("1E-3999,", 130_000) + "1]") }},
	{"300 MB", Refused, func() []byte { return letters(300 << 20) }},
	{"300 MB of brackets", Refused, func() []byte { return bytes.Repeat([]byte("["), 300<<20) }},
}

// fixedText returns a function that returns s.
func fixedText(s string) func() []byte { return func() []byte { return []byte(s) } }

func deep(open, shut string, levels int) func() []byte {
	return func() []byte { return []byte(strings.Repeat(open, levels) + "1" + strings.Repeat(shut, levels)) }
}

// letters returns a quoted string of n letters, made in one piece.
func letters(n int) []byte {
	text := bytes.Repeat([]byte("x"), n+2)
	text[0], text[n+1] = '"', '"'
	return text
}
