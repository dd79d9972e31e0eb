package sqlkit

import (
	"encoding/json"

	"github.com/errandhq/errand/queue/driver"
)

// Worker completes the record of a worker: info is its stored [driver.WorkerInfo], and silent how
// many microseconds ago it last reported itself. Of an info that cannot be read, which another
// program has written, it keeps nothing but the name.
func Worker(w driver.WorkerRecord, name string, info []byte, silent int64) driver.WorkerRecord {
	if json.Unmarshal(info, &w.WorkerInfo) != nil {
		w.WorkerInfo = driver.WorkerInfo{}
	}
	w.Name = name
	w.Silent = Duration(max(silent, 0))
	w.Vanished = w.Silent > driver.VanishedAfter
	return w
}
