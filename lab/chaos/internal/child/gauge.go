package child

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// Gauge is how much a process uses at one moment. A worker notes it, without a job.
type Gauge struct {
	Goroutines int    `json:"goroutines"`
	Heap       uint64 `json:"heap"` // bytes in use, right after a garbage collection
}

// gaugeNote begins the note of a Gauge.
const gaugeNote = "gauge: "

// gauge notes what a worker uses, once every Gauge, until ctx ends.
func (s *self) gauge(ctx context.Context) {
	if s.Work.Gauge <= 0 {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.Work.Gauge):
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		text, err := json.Marshal(Gauge{runtime.NumGoroutine(), m.HeapAlloc})
		exitOnError(err)
		s.note(peer.Run{}, gaugeNote+string(text))
	}
}

// Gauges returns the gauges that a worker noted, in their order.
func Gauges(notes []ledger.Entry, worker string) (gauges []Gauge, err error) {
	for _, n := range notes {
		text, ok := strings.CutPrefix(n.Text, gaugeNote)
		if !ok || n.Worker != worker {
			continue
		}
		var g Gauge
		if err := json.Unmarshal([]byte(text), &g); err != nil {
			return nil, err
		}
		gauges = append(gauges, g)
	}
	return gauges, nil
}
