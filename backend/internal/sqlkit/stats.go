package sqlkit

import (
	"encoding/json"

	"github.com/errandhq/errand/queue"
)

// DecodeHistogram reads a histogram that errand wrote as JSON. It leaves out empty buckets at the
// end, and returns nil for what is not a histogram.
func DecodeHistogram(text []byte) (h queue.Histogram) {
	if text == nil || json.Unmarshal(text, &h) != nil {
		return nil
	}
	for len(h) > 0 && h[len(h)-1] == 0 {
		h = h[:len(h)-1]
	}
	if len(h) == 0 {
		return nil
	}
	return h
}
