package sqlkit

import (
	"encoding/json"

	"github.com/errandhq/errand/queue"
)

// Worker completes the record of a worker: info is its stored [queue.WorkerInfo], and silent how
// many microseconds ago it last reported itself. Of an info that cannot be read, which another
// program has written, it keeps nothing but the name.
func Worker(w queue.WorkerRecord, name string, info []byte, silent int64) queue.WorkerRecord {
	if json.Unmarshal(info, &w.WorkerInfo) != nil {
		w.WorkerInfo = queue.WorkerInfo{}
	}
	w.Name = name
	w.Silent = Duration(max(silent, 0))
	w.Vanished = w.Silent > queue.VanishedAfter
	return w
}
