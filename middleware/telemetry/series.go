package telemetry

import (
	"cmp"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/queue"
)

// Attributes for which the conventions have no name.
const (
	kindKey       = attribute.Key("errand.job.kind")
	attemptKey    = attribute.Key("errand.job.attempt")
	outcomeKey    = attribute.Key("errand.job.outcome")
	lostKey       = attribute.Key("errand.job.lost") // of a process span: its worker lost the job meanwhile
	statusKey     = attribute.Key("errand.job.status")
	batchLostKey  = attribute.Key("errand.batch.lost")
	duplicatesKey = attribute.Key("errand.batch.duplicates")
	quantileKey   = attribute.Key("errand.quantile")

	workerStateKey = attribute.Key("errand.worker.state")
)

// operation is an operation on jobs, in errand's words.
type operation string

const (
	opEnqueue operation = "enqueue"
	opClaim   operation = "claim"
	opProcess operation = "process"
	opExtend  operation = "extend"
	opSettle  operation = "settle"
)

// types are the conventions' words for operations; they have none for extend.
var types = map[operation]messagingconv.OperationTypeAttr{
	opEnqueue: messagingconv.OperationTypeSend,
	opClaim:   messagingconv.OperationTypeReceive,
	opProcess: messagingconv.OperationTypeProcess,
	opSettle:  messagingconv.OperationTypeSettle,
}

// series holds what the spans and measurements of one operation, queue, kind and outcome share.
type series struct {
	key    seriesKey
	span   string // the name of spans
	attrs  []attribute.KeyValue
	start  trace.SpanStartEventOption // attrs
	record []metric.RecordOption      // attrs
	add    []metric.AddOption         // attrs
}

// recordOf returns the options of a measurement that ended with err.
func (s *series) recordOf(err error) []metric.RecordOption {
	if err == nil {
		return s.record
	}
	return []metric.RecordOption{s.failed(err)}
}

// addOf returns the options of a count that ended with err.
func (s *series) addOf(err error) []metric.AddOption {
	if err == nil {
		return s.add
	}
	return []metric.AddOption{s.failed(err)}
}

func (s *series) failed(err error) metric.MeasurementOption {
	return metric.WithAttributes(append(s.attrs[:len(s.attrs):len(s.attrs)], errorType(err))...)
}

// maxSeries is how many series are kept; further ones are made for each use.
const maxSeries = 4096

// seriesCache keeps the series that have been used. The zero value is empty.
type seriesCache struct {
	mu    sync.RWMutex
	known map[seriesKey]*series
}

type seriesKey struct {
	op                   operation
	queue, kind, outcome string
}

// get returns the series. It leaves out an empty queue, kind or outcome.
func (c *seriesCache) get(op operation, queue, kind, outcome string) *series {
	key := seriesKey{op, queue, kind, outcome}
	c.mu.RLock()
	s := c.known[key]
	c.mu.RUnlock()
	if s != nil {
		return s
	}
	if !showable(queue) || !showable(kind) {
		return newSeries(seriesKey{op: op, outcome: outcome})
	}
	s = newSeries(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[seriesKey]*series)
	}
	if len(c.known) < maxSeries {
		c.known[key] = s
	}
	return s
}

// showable reports whether a backend would accept the name. Any other name is about to be refused
// and can be anything.
func showable(name string) bool {
	if len(name) > 200 {
		return false
	}
	for i := range len(name) {
		if name[i] < 0x20 || name[i] > 0x7e {
			return false
		}
	}
	return true
}

func newSeries(key seriesKey) *series {
	s := &series{key: key, span: string(key.op), attrs: []attribute.KeyValue{
		semconv.MessagingSystemKey.String("errand"),
		semconv.MessagingOperationName(string(key.op)),
	}}
	if t, ok := types[key.op]; ok {
		s.attrs = append(s.attrs, semconv.MessagingOperationTypeKey.String(string(t)))
	}
	if key.queue != "" {
		s.span += " " + key.queue
		s.attrs = append(s.attrs, semconv.MessagingDestinationName(key.queue))
	}
	if key.kind != "" {
		s.attrs = append(s.attrs, kindKey.String(key.kind))
	}
	if key.outcome != "" {
		s.attrs = append(s.attrs, outcomeKey.String(key.outcome))
	}
	set := metric.WithAttributeSet(attribute.NewSet(s.attrs...))
	s.start = trace.WithAttributes(s.attrs...)
	s.record = []metric.RecordOption{set}
	s.add = []metric.AddOption{set}
	return s
}

// commonQueue returns the queue that all jobs have in common, or "".
func commonQueue(jobs []*queue.Job) string {
	return common(jobs, queueOf)
}

// commonKind returns the kind that all jobs have in common, or "".
func commonKind(jobs []*queue.Job) string {
	return common(jobs, func(j *queue.Job) string { return j.Kind })
}

// queueOf returns the queue that a job is in, or will be in once it is enqueued.
func queueOf(j *queue.Job) string { return cmp.Or(j.Queue, queue.DefaultQueue) }

func common(jobs []*queue.Job, field func(*queue.Job) string) (value string) {
	for i, job := range jobs {
		switch {
		case job == nil:
			return ""
		case i == 0:
			value = field(job)
		case field(job) != value:
			return ""
		}
	}
	return value
}
