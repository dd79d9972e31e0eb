package payload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Value returns a digest of the value of a JSON text. Texts have the same value if they differ only
// in white space, in how characters and numbers are written, in the order of keys, and in what the
// last of duplicate keys hides. ok is false if the text has no value: it is not JSON, or it
// contains something that is not a character.
func Value(text []byte) (digest string, ok bool) {
	if !utf8.Valid(text) || !json.Valid(text) || unpaired(text) {
		return "", false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return "", false
	}
	h := sha256.New()
	write(h, v)
	return hex.EncodeToString(h.Sum(nil)), true
}

// unpaired reports whether a JSON text has half of a surrogate pair.
func unpaired(text []byte) bool {
	high := false
	for i := 0; i < len(text); i++ {
		low := false
		if text[i] == '\\' {
			i++
			if text[i] == 'u' {
				u, _ := strconv.ParseUint(string(text[i+1:i+5]), 16, 32) // it is valid
				i += 4
				if low = u>>10 == 0xdc00>>10; low && !high {
					return true
				}
				if u>>10 == 0xd800>>10 && !high {
					high = true
					continue
				}
			}
		}
		if high && !low {
			return true
		}
		high = false
	}
	return high
}

// write writes a value in its normal form.
func write(w io.Writer, v any) {
	switch v := v.(type) {
	case json.Number:
		fmt.Fprint(w, normal(string(v)))
	case string:
		fmt.Fprint(w, strconv.Quote(v))
	case []any:
		fmt.Fprint(w, "[")
		for _, item := range v {
			write(w, item)
			fmt.Fprint(w, ",")
		}
		fmt.Fprint(w, "]")
	case map[string]any:
		fmt.Fprint(w, "{")
		for _, k := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprint(w, strconv.Quote(k), ":")
			write(w, v[k])
			fmt.Fprint(w, ",")
		}
		fmt.Fprint(w, "}")
	default:
		fmt.Fprint(w, v)
	}
}

// normal returns a number as digits without zeros at either end, and the power of ten that they are
// multiplied with.
func normal(number string) string {
	mantissa, power := number, 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa = number[:i]
		power, _ = strconv.Atoi(number[i+1:]) // an exponent that does not fit is refused elsewhere
	}
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	power -= len(fraction)
	all := strings.TrimLeft(whole+fraction, "0")
	if all == "" {
		return "0"
	}
	short := strings.TrimRight(all, "0")
	return fmt.Sprintf("%s%se%d", sign, short, power+len(all)-len(short))
}
