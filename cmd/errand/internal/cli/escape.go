package cli

import (
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/errandhq/errand/internal/plain"
)

// escapeJSON escapes what is unsafe in JSON text. Outside of its strings there are only line
// breaks, which stay.
func escapeJSON(text []byte) []byte {
	var b []byte
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(b, `\ufffd`...)
		case r == '\n' || !plain.IsUnsafe(r):
			b = append(b, text[i:i+n]...)
		case r < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
		i += n
	}
	return b
}

// width returns how many columns a terminal needs for s, which is a line of [plain.Line].
func width(s string) (columns int) {
	for _, r := range s {
		columns += runeWidth(r)
	}
	return columns
}

func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && unicode.In(r, wide):
		return 2
	}
	return 1
}

// wide are the blocks whose characters take two columns.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{{0x1100, 0x115f, 1}, {0x2e80, 0xa4cf, 1}, {0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1}, {0xfe30, 0xfe6f, 1},
		{0xff00, 0xff60, 1}, {0xffe0, 0xffe6, 1}},
	R32: []unicode.Range32{{0x1f300, 0x1f64f, 1}, {0x1f900, 0x1f9ff, 1}, {0x20000, 0x3fffd, 1}},
}

// CutLine returns s in at most so many columns.
func CutLine(s string, columns int) string {
	if width(s) <= columns {
		return s
	}
	used := 0
	for i, r := range s {
		if used+runeWidth(r) > columns-1 {
			return s[:i] + "…"
		}
		used += runeWidth(r)
	}
	return s
}
