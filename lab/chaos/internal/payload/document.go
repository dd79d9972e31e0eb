package payload

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// document draws a JSON text that is inside every limit.
func document(draw *rand.Rand) string { return space(draw) + value(draw, 5) + space(draw) }

func value(draw *rand.Rand, levels int) string {
	kind := draw.IntN(8)
	if levels == 0 {
		kind = draw.IntN(5)
	}
	switch kind {
	case 0:
		return []string{"null", "true", "false", `""`, "[]", "{}"}[draw.IntN(6)]
	case 1, 2:
		return number(draw)
	case 3, 4:
		return quoted(draw)
	case 5:
		return list(draw, "[", "]", func() string { return value(draw, levels-1) })
	}
	return list(draw, "{", "}", func() string { return key(draw) + space(draw) + ":" + space(draw) + value(draw, levels-1) })
}

func list(draw *rand.Rand, open, shut string, item func() string) string {
	items := make([]string, draw.IntN(5))
	for i := range items {
		items[i] = space(draw) + item() + space(draw)
	}
	return open + strings.Join(items, ",") + shut
}

func space(draw *rand.Rand) string { return []string{"", "", "", " ", "\n\t", "\r "}[draw.IntN(6)] }

// number draws a number of up to 300 digits and an exponent of up to ±3,700, so that it is between
// 1e-4,000 and 1e+4,000.
func number(draw *rand.Rand) string {
	n := []string{"", "-"}[draw.IntN(2)]
	switch draw.IntN(4) {
	case 0:
		n += "0"
	case 1:
		n += strconv.FormatUint(1<<53-2+draw.Uint64N(5), 10)
	default:
		n += string(rune('1'+draw.IntN(9))) + digits(draw, draw.IntN(1+draw.IntN(300)))
	}
	if draw.IntN(3) == 0 {
		n += "." + digits(draw, 1+draw.IntN(1+draw.IntN(300)))
	}
	if draw.IntN(3) == 0 {
		most := []int{10, 400, 3700}[draw.IntN(3)]
		n += []string{"e", "E", "e+", "E-", "e-", "e0"}[draw.IntN(6)] + strconv.Itoa(draw.IntN(most+1))
	}
	return n
}

func digits(draw *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('0' + draw.IntN(10))
	}
	return string(text)
}

// key draws a key: one of few names, so that keys repeat, or any string.
func key(draw *rand.Rand) string {
	if draw.IntN(3) == 0 {
		return quoted(draw)
	}
	return []string{`""`, `"a"`, `"\u0061"`, `"A"`, `"number"`, `"a b"`, `"ä"`, `"\u00e4"`}[draw.IntN(8)]
}

// runes are the special runes in strings. Others are drawn from all of Unicode.
var runes = []string{
	`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0001`, `\u001e`, `\u001F`, `\u0020`, `\u007f`, `\uD83D\uDE00`, `\udbff\udfff`, `\uffff`, `\u2028`,
	`\\u0000`, `\\ud800`, "'", "''", "$1", "$$", ";--", "{", "}", ",", "NULL", `\\N`, "\u007f", "\u00e9", "e\u0301", "\u2028", "\u202e",
	"\ufeff", "\uffff", "\U0010ffff",
}

func quoted(draw *rand.Rand) string {
	var s strings.Builder
	s.WriteByte('"')
	for range draw.IntN(1 + draw.IntN(20)) {
		if r := rune(0x20 + draw.IntN(0x10ffff-0x20)); draw.IntN(2) == 0 && r != '"' && r != '\\' && (r < 0xd800 || r > 0xdfff) {
			s.WriteRune(r)
		} else {
			s.WriteString(runes[draw.IntN(len(runes))])
		}
	}
	if draw.IntN(100) == 0 {
		s.WriteString(strings.Repeat("x", draw.IntN(100_000)))
	}
	s.WriteByte('"')
	return s.String()
}

// flaw draws a value that no queue can keep.
func flaw(draw *rand.Rand) string {
	flaws := []string{
		`"\u0000"`, `"x\u0000"`, `{"\u0000":1}`, `"\ud800"`, `"\udfff"`, `"\udc00\ud800"`, `"\ud800\u0041"`, `"\ud800\\udc00"`, `{"\ud9ab":0}`,
		"\"\x00\"", "\"\xff\"", "\"\xc3\"", "\"\xed\xbf\xbf\"", "\"\xf4\x90\x80\x80\"", "\xff",
		`NaN`, `Infinity`, `01`, `-`, `+1`, `.5`, `1.`, `1e`, `1e+`, `0x10`, `1_000`, `tru`, `True`, `nil`, `undefined`,
		`'x'`, "\"\n\"", "\"\t\"", "\"\x1e\"", "\x1e", `"\x41"`, `"\u12"`, `"\u12g4"`, `"`, `[`, `{`, `]`, `}`, `[1,]`, `[,1]`, `{"a":1,}`, `{"a"}`, `{a:1}`, `{1:1}`,
		`1 2`, `//`, `/**/`, `,`, `:`,
	}
	switch draw.IntN(6) {
	case 0:
		return digits(draw, 1) + "." + digits(draw, 4000+draw.IntN(2000))
	case 1:
		return fmt.Sprint(1+draw.IntN(9), "e", []string{"", "-", "+"}[draw.IntN(3)], 4001+draw.IntN(1_000_000))
	case 2:
		levels := 1001 + draw.IntN(9000)
		return strings.Repeat("[", levels) + strings.Repeat("]", levels)
	}
	return flaws[draw.IntN(len(flaws))]
}

// around draws a document that contains a value.
func around(draw *rand.Rand, inner string) string {
	for range draw.IntN(5) {
		if draw.IntN(2) == 0 {
			inner = "[" + value(draw, 2) + "," + inner + "," + value(draw, 2) + "]"
		} else {
			inner = "{" + key(draw) + ":" + inner + "," + `"last":` + value(draw, 2) + "}"
		}
	}
	return inner
}

// damage changes, removes or inserts up to three bytes.
func damage(draw *rand.Rand, document string) []byte {
	text := []byte(document)
	for range 1 + draw.IntN(3) {
		at := draw.IntN(len(text) + 1)
		switch {
		case draw.IntN(3) == 0 || at == len(text):
			text = append(text[:at:at], append([]byte{byte(draw.Uint32())}, text[at:]...)...)
		case draw.IntN(2) == 0:
			text = append(text[:at:at], text[at+1:]...)
		default:
			text[at] ^= 1 << draw.IntN(8)
		}
	}
	return text
}

// keys returns an object of n keys.
func keys(n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, `,"key %d":%d`, i, i)
	}
	return "{" + s.String()[1:] + "}"
}
