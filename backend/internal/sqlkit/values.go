package sqlkit

import (
	"encoding/json"
	"math"
	"time"

	"github.com/errandhq/errand/queue"
)

// Microseconds returns d in the unit of the tables. It rounds up, so that no delay ends early.
func Microseconds(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// Duration returns us microseconds, or the longest duration there is where they are more.
func Duration(us int64) time.Duration {
	return time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
}

// OrNull returns v, or NULL where v is the zero value.
func OrNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// EncodeHeaders returns headers as a JSON object.
func EncodeHeaders(headers map[string]string) string {
	text, _ := json.Marshal(headers) // a map of strings always marshals
	return string(text)
}

// DecodeHistory reads the failures that errand wrote. Another client may have written other JSON
// there: DecodeHistory leaves out what is not a failure.
func DecodeHistory(text []byte) (history []queue.Failure) {
	var all []json.RawMessage
	if text == nil || json.Unmarshal(text, &all) != nil {
		return nil
	}
	for _, one := range all {
		var f queue.Failure
		if json.Unmarshal(one, &f) == nil && !f.At.IsZero() {
			f.At = f.At.UTC()
			history = append(history, f)
		}
	}
	return history
}

// DecodeHeaders reads headers that errand wrote. Another client may have written other JSON there:
// DecodeHeaders leaves out what is not a string, so that the job runs all the same.
func DecodeHeaders(text []byte) map[string]string {
	if text == nil {
		return nil
	}
	var headers map[string]string
	if json.Unmarshal(text, &headers) == nil {
		return headers
	}
	var values map[string]any
	if json.Unmarshal(text, &values) != nil {
		return nil
	}
	headers = make(map[string]string, len(values))
	for k, v := range values {
		if s, ok := v.(string); ok {
			headers[k] = s
		}
	}
	return headers
}
