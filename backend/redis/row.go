package redis

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue"
)

// micros returns a duration in the microseconds of the functions' arguments, rounded up, so that no
// job is due too early.
func micros(d time.Duration) string {
	us := d / time.Microsecond
	if d > us*time.Microsecond {
		us++
	}
	return strconv.FormatInt(int64(us), 10)
}

// timeOf returns a time in microseconds; 0 is the zero time.
func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// reader reads the fields of an answer one by one. After an error it returns zeros.
type reader struct {
	fields []rueidis.RedisMessage
	err    error
}

// readerOf returns a reader of the elements of an answer.
func readerOf(answer *rueidis.RedisMessage) *reader {
	fields, err := answer.ToArray()
	return &reader{fields, err}
}

// callFields calls a function on a partition, and returns a reader of its answer.
func (b *Backend) callFields(ctx context.Context, function string, p int, args ...string) (*reader, error) {
	m, err := b.call(ctx, function, p, args...)
	if err != nil {
		return nil, err
	}
	in := readerOf(&m)
	return in, in.err
}

func (r *reader) next() (m *rueidis.RedisMessage) {
	if len(r.fields) == 0 {
		if r.err == nil {
			r.err = fmt.Errorf("an answer is too short")
		}
		return nil
	}
	m, r.fields = &r.fields[0], r.fields[1:]
	return m
}

// text returns a string. It returns "" for null.
func (r *reader) text() string {
	m := r.next()
	if m == nil || m.IsNil() {
		return ""
	}
	s, err := m.ToString()
	if err != nil && r.err == nil {
		r.err = err
	}
	return s
}

func (r *reader) int() int64 {
	m := r.next()
	if m == nil {
		return 0
	}
	n, err := m.AsInt64()
	if err != nil && r.err == nil {
		r.err = err
	}
	return n
}

func (r *reader) time() time.Time { return timeOf(r.int()) }

// dueBytes returns a due time as it is stored, 8 bytes long.
func dueBytes(at time.Time) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro())))
}

// due returns a time that is 8 bytes long.
func (r *reader) due() time.Time {
	s := r.text()
	if len(s) != 8 {
		return time.Time{}
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(s)))).UTC()
}

// readClaimed reads the fields of lua/lib.lua's claimed.
func (b *Backend) readClaimed(p int, in *reader) (j queue.Job) {
	j.ID, j.Kind, j.ScheduledAt, j.Priority = b.idOf(p, in.int()), in.text(), in.due(), int32(in.int())
	j.MaxAttempts, j.Attempt, j.CreatedAt = int(in.int()), int(in.int()), in.time()
	j.Key, j.Group, j.Ordered, j.LastError = in.text(), in.text(), in.int() == 1, in.text()
	j.Payload = rawJSON(in.text())
	j.Headers, j.Unreadable = headersOf(in.text())
	return j
}

// record reads a row of lua/lib.lua.
func (b *Backend) record(p int, m *rueidis.RedisMessage) (queue.Record, error) {
	in := readerOf(m)
	rec := queue.Record{Job: b.readClaimed(p, in)}
	rec.Queue, rec.Status = in.text(), queue.Status(in.text())
	rec.Worker, rec.Fence, rec.Cost = in.text(), in.int(), int(in.int())
	rec.UpdatedAt, rec.StartedAt, rec.FinishedAt = in.time(), in.time(), in.time()
	rec.LockedAt, rec.LeaseEnds, rec.CancelAt, rec.RedrivenAt = in.time(), in.time(), in.time(), in.time()
	rec.Redrives = int(in.int())
	return rec, in.err
}

// headersOf returns the headers in a text of headersText.
func headersOf(text string) (headers map[string]string, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &headers)
	}
	return headers, err
}

// records reads rows.
func (b *Backend) records(p int, m *rueidis.RedisMessage) ([]queue.Record, error) {
	rows, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	all := make([]queue.Record, len(rows))
	for i := range rows {
		if all[i], err = b.record(p, &rows[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}
