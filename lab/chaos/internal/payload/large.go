package payload

import "strings"

// RaisedLimit is the limit for the large payloads.
const RaisedLimit = 400 << 20

// large are the large payloads. A jsonb cannot hold some of them, so these must be refused.
var large = []struct {
	name string
	fate Fate
	text func() []byte
}{
	{"1 MB and a byte", Kept, func() []byte { return []byte(`"` + strings.Repeat("x", Limit-1) + `"`) }},
	{"a key of 1 MB", Kept, func() []byte { return []byte(`{"` + strings.Repeat("k", Limit) + `":1}`) }},
	{"100,000 keys", Kept, func() []byte { return []byte(keys(100_000)) }},
	{"20 MB", Kept, func() []byte { return []byte(`["` + strings.Repeat("äöü ", 3<<20) + `"]`) }},
	{"3 MB of 1e4000", Refused, func() []byte { return []byte("[" + strings.Repeat("1e4000,", 400_000) + "1]") }},
	{"10 MB of digits", Either, func() []byte { return []byte("[" + strings.Repeat("1,", 5<<20) + "1]") }},
	{"60 MB of digits", Either, func() []byte { return []byte("[" + strings.Repeat("1,", 30<<20) + "1]") }},
	{"100 MB", Either, func() []byte { return letters(100 << 20) }},
	{"256 MB", Either, func() []byte { return letters(256 << 20) }},
	{"300 MB", Either, func() []byte { return letters(300 << 20) }},
	{"300 MB of strings", Either, func() []byte { return []byte("[" + strings.Repeat(`"`+strings.Repeat("x", 1<<20)+`",`, 300) + "1]") }},
	{"400 MB and a byte", Refused, func() []byte { return []byte(strings.Repeat(" ", RaisedLimit) + "1") }},
}

// Large returns the large payload of a number.
func Large(number int) Payload {
	l := large[number]
	return Payload{l.name, l.text(), l.fate}
}

// LargeOnes is how many large payloads there are. The first Moderate ones are not so large.
const LargeOnes, Moderate = 12, 5
