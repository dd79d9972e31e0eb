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
	return scanJSON(p)
}

// scanJSON walks p, which is valid JSON, once.
func scanJSON(p []byte) error {
	depth := 0
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
			end, err := scanNumber(p, i)
			if err != nil {
				return err
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

// scanNumber returns the index behind the number whose first byte is p[i].
func scanNumber(p []byte, i int) (int, error) {
	start, exp := i, -1
	for ; i < len(p); i++ {
		switch c := p[i]; {
		case c == 'e' || c == 'E':
			exp = i + 1
		case '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.':
		default:
			return i, checkNumber(p[start:i], exp-start)
		}
	}
	return i, checkNumber(p[start:i], exp-start)
}

// checkNumber checks num, whose exponent begins at exp, or below 0 without one.
func checkNumber(num []byte, exp int) error {
	if len(num) > maxDigits {
		return invalid("Payload", "a number of %d digits: at most %d", len(num), maxDigits)
	}
	if exp > 0 {
		if e, err := strconv.Atoi(string(num[exp:])); err != nil || e < -maxExponent || e > maxExponent {
			return invalid("Payload", "a number with an exponent beyond ±%d", maxExponent)
		}
	}
	return nil
}
