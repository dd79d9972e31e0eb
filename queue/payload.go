package queue

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// The limits of what every backend stores faithfully. Postgres' jsonb recurses
// for each level of nesting until its stack limit, and keeps a number as up to
// 131,072 digits before the point and 16,383 after it; these are far inside.
const (
	maxDepth    = 1000
	maxDigits   = 4000
	maxExponent = 4000
)

// freeGrowth is how much longer, in bytes, any payload may come back; one that is longer itself may come
// back twice as long. Postgres shows a jsonb's numbers without exponents: of 1e4000, which takes six
// bytes, a claim gets four thousand.
const freeGrowth = 64 << 10

// checkPayload refuses what is not JSON, and the JSON that a SQL database cannot
// keep: NUL and unpaired surrogates in strings, invalid UTF-8, nesting and
// numbers beyond the limits above, and what would come back much longer. No byte of the payload is put in the error.
func checkPayload(p json.RawMessage, limit int) error {
	switch {
	case p == nil:
		return nil
	case len(p) > limit:
		return invalid("Payload", "%d bytes: at most %d", len(p), limit)
	case !utf8.Valid(p):
		return invalid("Payload", "invalid UTF-8")
	case !json.Valid(p):
		return invalid("Payload", "not a JSON value")
	}
	return scanJSON(p, max(len(p), freeGrowth))
}

// scanJSON walks p, which is valid JSON, once. room is how many bytes longer it may come back: by the
// digits that exponents stand for, and a space after each comma and colon.
func scanJSON(p []byte, room int) error {
	depth, left := 0, room
	for i := 0; i < len(p); {
		switch c := p[i]; {
		case c == '"':
			end, err := scanString(p, i+1)
			if err != nil {
				return err
			}
			i = end
			continue
		case c == '-' || '0' <= c && c <= '9':
			end, grown, err := scanNumber(p, i)
			if err != nil {
				return err
			}
			left -= grown
			i = end
			continue
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return invalid("Payload", "nested deeper than %d", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		case c == ',' || c == ':':
			left--
		}
		i++
	}
	if left < 0 {
		return invalid("Payload", "its exponents stand for so many digits that it would come back more than twice as long")
	}
	return nil
}

// scanString returns the index behind the string whose first byte is p[i].
func scanString(p []byte, i int) (int, error) {
	if n := bytes.IndexAny(p[i:], `"\`); p[i+n] == '"' {
		return i + n + 1, nil // nothing escaped: most strings
	}
	high := false // the escape just before was a high surrogate
	for p[i] != '"' {
		low := false
		size := 1
		if p[i] == '\\' {
			size = 2
			if p[i+1] == 'u' {
				size = 6
				u, _ := strconv.ParseUint(string(p[i+2:i+6]), 16, 16) // four hex digits, as json.Valid saw
				if u == 0 {
					return 0, invalid("Payload", `NUL (\u0000) in a string at byte %d`, i)
				}
				low = 0xDC00 <= u && u <= 0xDFFF
				if low != high {
					return 0, invalid("Payload", "unpaired surrogate in a string at byte %d", i)
				}
				high = 0xD800 <= u && u <= 0xDBFF
				i += size
				continue
			}
		}
		if high {
			return 0, invalid("Payload", "unpaired surrogate in a string at byte %d", i)
		}
		i += size
	}
	if high {
		return 0, invalid("Payload", "unpaired surrogate in a string at byte %d", i)
	}
	return i + 1, nil
}

// scanNumber returns the index behind the number whose first byte is p[i], and how many bytes longer it
// is with the digits that its exponent stands for.
func scanNumber(p []byte, i int) (end, grown int, err error) {
	start, point, exp := i, -1, -1
scan:
	for ; i < len(p); i++ {
		switch c := p[i]; {
		case c == 'e' || c == 'E':
			exp = i + 1
		case c == '.':
			point = i
		case '0' <= c && c <= '9' || c == '-' || c == '+':
		default:
			break scan
		}
	}
	if i-start > maxDigits {
		return i, 0, invalid("Payload", "a number of %d digits: at most %d", i-start, maxDigits)
	}
	if exp > 0 {
		shift, err := strconv.Atoi(string(p[exp:i]))
		zeros := max(shift, -shift)
		before, after := digitsAround(p[start:exp-1], point-start)
		if err != nil || zeros > maxExponent || before+shift > maxExponent+1 || after-shift > maxExponent {
			return i, 0, invalid("Payload", "a number beyond 1e±%d", maxExponent)
		}
		grown = max(zeros-(i-exp+1), 0)
	}
	return i, grown, nil
}

// digitsAround returns how many digits a number without its exponent has before its point, which is
// number[point], and after it. Where point is below 0 there is none.
func digitsAround(number []byte, point int) (before, after int) {
	if number[0] == '-' {
		number, point = number[1:], point-1
	}
	if point < 0 {
		return len(number), 0
	}
	return point, len(number) - point - 1
}
