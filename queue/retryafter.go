package queue

import (
	"strconv"
	"strings"
	"time"
)

// longestRetryAfter bounds what a server can ask for: a day.
const longestRetryAfter = 24 * time.Hour

// RetryAfterOf returns how long the Retry-After of a [net/http.Header] asks to wait: for [Throttle]
// after a 429, and for [RetryAfter] after a 503. It reads seconds and dates (RFC 9110, 10.2.3),
// counts a date that is over as 0, and anything longer than a day as a day. Without a Retry-After
// that can be read it returns otherwise.
//
//	return queue.Throttle(queue.RetryAfterOf(response.Header, time.Minute), nil)
func RetryAfterOf(header map[string][]string, otherwise time.Duration) time.Duration {
	values := header["Retry-After"]
	if len(values) == 0 {
		return otherwise
	}
	text := strings.TrimSpace(values[0])
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(longestRetryAfter/time.Second))) * time.Second
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if at, err := time.Parse(layout, text); err == nil {
			return min(max(time.Until(at), 0), longestRetryAfter)
		}
	}
	return otherwise
}
