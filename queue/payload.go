package queue

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// These limits are far within the limits of every backend. Postgres' jsonb recurses for each level
// of nesting, up to its stack limit. It stores up to 131,072 digits of a number before the point
// and 16,383 after it.
const (
	maxDepth    = 1000
	maxDigits   = 4000
	maxExponent = 4000
)

// freeGrowth is by how many bytes a stored payload may be longer than the enqueued one. A payload
// that is longer than freeGrowth may double. Postgres prints the numbers of a jsonb without
// exponents: the six bytes of 1e4000 come back as four thousand.
const freeGrowth = 64 << 10

// checkPayload returns an error for a payload that is not JSON, or that a SQL database cannot
// store: NUL and unpaired surrogates in strings, invalid UTF-8, nesting and numbers beyond the
// limits above, and a payload that would come back much longer. The error contains no byte of the
// payload.
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

// scanJSON checks p, which is valid JSON. room is by how many bytes p may grow when it comes back:
// by the digits that exponents stand for, and by a space after each comma and colon.
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
		return invalid("Payload", "too many digits by its exponents: it would come back more than twice as long")
	}
	return nil
}

// scanString checks the string whose first byte is p[i], and returns the index after its closing
// quote.
func scanString(p []byte, i int) (int, error) {
	if n := bytes.IndexAny(p[i:], `"\`); p[i+n] == '"' {
		return i + n + 1, nil // most strings have no escape
	}
	high := false // the last escape was a high surrogate
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

// scanNumber checks the number whose first byte is p[i]. It returns the index after the number, and
// by how many bytes the number grows if its exponent is written as digits.
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

// digitsAround returns how many digits a number without exponent has before and after its point.
// The point is number[point]; a point below 0 means that there is none.
func digitsAround(number []byte, point int) (before, after int) {
	if number[0] == '-' {
		number, point = number[1:], point-1
	}
	if point < 0 {
		return len(number), 0
	}
	return point, len(number) - point - 1
}
