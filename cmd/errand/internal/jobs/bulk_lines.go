package jobs

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/cli/strict"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

// maxLine is the longest line, in bytes: a payload and headers, with room for spaces and escapes.
const maxLine = 4 << 20

// lineReader reads lines that each have a job as JSON. It skips empty lines.
type lineReader struct {
	lines *bufio.Scanner
	hash  hash.Hash
	line  int    // its number, from 1
	text  []byte // until next is called

	in     wire.Job
	fields strict.Object
}

func newLineReader(in io.Reader) *lineReader {
	r := &lineReader{hash: sha256.New()}
	r.lines = bufio.NewScanner(io.TeeReader(in, r.hash))
	r.lines.Buffer(make([]byte, 64<<10), maxLine)
	r.fields.Fields = map[string]any{
		"queue": &r.in.Queue, "kind": &r.in.Kind, "payload": &r.in.Payload, "priority": &r.in.Priority, "scheduled_at": &r.in.ScheduledAt,
		"delay_ns": &r.in.Delay, "max_attempts": &r.in.MaxAttempts, "key": &r.in.Key, "on_duplicate": &r.in.OnDuplicate,
		"max_delay_ns": &r.in.MaxDelay, "group": &r.in.Group, "ordered": &r.in.Ordered, "cost": &r.in.Cost, "headers": &r.in.Headers,
	}
	return r
}

// next goes to the next line that is not empty, and reports whether there is one.
func (r *lineReader) next() bool {
	for r.lines.Scan() {
		r.line++
		if r.text = r.lines.Bytes(); len(bytes.TrimSpace(r.text)) > 0 {
			return true
		}
	}
	return false
}

// err returns why next has returned false, or nil at the end of the input.
func (r *lineReader) err() error {
	if err := r.lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return cli.Usagef("line %d: longer than %d bytes, and nothing from here on is read", r.line+1, maxLine)
	} else if err != nil {
		return fmt.Errorf("after line %d: %w", r.line, err)
	}
	return nil
}

// sum returns a sum of the whole input, once next has returned false.
func (r *lineReader) sum() string { return hex.EncodeToString(r.hash.Sum(nil)) }

// job returns the job of the line. The error names the field.
func (r *lineReader) job() (*queue.Job, error) {
	if e := strict.Check(r.text); e != nil {
		return nil, e
	}
	r.in = wire.Job{}
	if e := r.fields.Read(json.NewDecoder(bytes.NewReader(r.text))); e != nil {
		return nil, e
	}
	job := r.in.ToEnqueue()
	if job.Queue == "" {
		job.Queue = queue.DefaultQueue
	}
	err := job.Check(0)
	if bad, ok := errors.AsType[*queue.InvalidError](err); ok {
		return nil, fmt.Errorf("%s: %s", wire.FieldName(bad.Field), bad.Problem)
	}
	return job, err
}
