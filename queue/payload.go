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

// Postgres shows a jsonb's numbers without exponents: of 1e4000, which takes six bytes, a claim gets four thousand. A value that it
// cannot show in a gigabyte fails every claim that meets it, so a payload may grow by so many times its limit at most, and
// never by more than what is far inside of that.
const (
	maxGrowth      = 16
	maxGrowthBytes = 512 << 20
)

// checkPayload refuses what is not JSON, and the JSON that a SQL database cannot
// keep: NUL and unpaired surrogates in strings, invalid UTF-8, nesting and
// numbers beyond the limits above. No byte of the payload is put in the error.
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
	return scanJSON(p, maxGrowth*min(limit, maxGrowthBytes/maxGrowth))
}

// scanJSON walks p, which is valid JSON, once. room is how many digits the exponents of its numbers may stand for.
func scanJSON(p []byte, room int) error {
	depth := 0
	left := room
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
			end, zeros, err := scanNumber(p, i)
			if err != nil {
				return err
			}
			if left -= zeros; left < 0 {
				return invalid("Payload", "numbers with exponents that stand for more than %d digits", room)
			}
			i = end
			continue
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return invalid("Payload", "nested deeper than %d", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
		i++
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

// scanNumber returns the index behind the number whose first byte is p[i], and how many digits its exponent stands for.
func scanNumber(p []byte, i int) (end, zeros int, err error) {
	start, exp := i, -1
scan:
	for ; i < len(p); i++ {
		switch c := p[i]; {
		case c == 'e' || c == 'E':
			exp = i + 1
		case '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.':
		default:
			break scan
		}
	}
	if i-start > maxDigits {
		return i, 0, invalid("Payload", "a number of %d digits: at most %d", i-start, maxDigits)
	}
	if exp > 0 {
		zeros, err = strconv.Atoi(string(p[exp:i]))
		if zeros = max(zeros, -zeros); err != nil || zeros > maxExponent {
			return i, 0, invalid("Payload", "a number with an exponent beyond ±%d", maxExponent)
		}
	}
	return i, zeros, nil
}
