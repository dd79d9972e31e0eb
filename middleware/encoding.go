package middleware

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/errandhq/errand/internal/handling"
	"github.com/errandhq/errand/queue"
)

// EncodingHeader is the header of a job whose payload [Compress] or [Encrypt] has changed. Like
// HTTP's Content-Encoding it lists the steps, first to last:
//
//	errand-encoding: gzip, aes-gcm;key=2026-07
//
// The payload is then a JSON string: the base64 (RFC 4648, padded) of the encoded bytes. Queue,
// kind, key and the other headers stay as they are.
const EncodingHeader = queue.EncodingHeader

// encodings is the value of EncodingHeader: its entries, or "" if there are none.
type encodings string

const separator = ", "

func encodingsOf(job *queue.Job) encodings { return encodings(job.Headers[EncodingHeader]) }

func (e encodings) push(entry string) encodings {
	if e == "" {
		return encodings(entry)
	}
	return e + encodings(separator+entry)
}

// pop undoes push.
func (e encodings) pop() (below encodings, last string) {
	i := strings.LastIndex(string(e), separator)
	if i < 0 {
		return "", string(e)
	}
	return e[:i], string(e[i+len(separator):])
}

// has reports whether an entry begins with that prefix.
func (e encodings) has(prefix string) bool {
	return strings.Contains(separator+string(e), separator+prefix)
}

// misplaced returns the error for middleware whose own entry is not the last. It is a plain error,
// so the job is retried: a deploy that corrects the order of the chain can run it.
func misplaced(last, met string) error {
	const text = "middleware: the payload's last encoding is %q: %s has to stand outside %s.Handler"
	outer := ""
	switch name, _, _ := strings.Cut(last, ";"); name {
	case gzipName:
		outer = "Compress"
	case gcmName:
		outer = "Encrypt"
	default:
		return fmt.Errorf(text, last, "the middleware that decodes it", met)
	}
	return fmt.Errorf(text+", and %s.Open is called before %s.Open", last, outer+".Handler", met, outer, met)
}

// encodeJobs returns an Enqueuer that passes on copies of the jobs, changed by encode, in one call.
// It copies to the caller's jobs what Enqueue fills in.
func encodeJobs(next queue.Enqueuer, encode func(copied *queue.Job) error) queue.Enqueuer {
	return queue.EnqueuerFunc(func(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
		encoded := make([]*queue.Job, len(jobs))
		for i, job := range jobs {
			if job.Check(math.MaxInt) != nil {
				encoded[i] = job // for the backend to refuse: it would not see what is wrong beneath the encoding
				continue
			}
			copied := *job
			if err := encode(&copied); err != nil {
				return fmt.Errorf("middleware: job %d of %d: %w", i+1, len(jobs), err)
			}
			encoded[i] = &copied
		}
		if err := next.Enqueue(ctx, db, encoded...); err != nil {
			return err
		}
		for i, job := range jobs {
			if job != encoded[i] {
				payload, headers := job.Payload, job.Headers
				*job = *encoded[i]
				job.Payload, job.Headers = payload, headers
			}
		}
		return nil
	})
}

// decodeJob returns a Handler that passes on a copy of the job, changed by decode. The copy has the
// same ID, Fence and Worker, so it can be settled like the job.
func decodeJob(next queue.Handler, decode func(copied *queue.Job) error) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		copied := *job
		err := decode(&copied)
		if _, answered := queue.ActionOf(err); !answered {
			return handling.ChainFault(err) // here and not in decode: a handler may call Open
		}
		if err != nil {
			return err
		}
		return next.HandleJob(ctx, &copied)
	})
}

// openJob returns a copy of the job, changed by decode, for a caller that is not its handler. So an
// error of decode is not an answer to a worker.
func openJob(job *queue.Job, decode func(copied *queue.Job) error) (*queue.Job, error) {
	if job == nil {
		return nil, &queue.InvalidError{Field: "Job", Problem: "nil"}
	}
	if job.Unreadable != nil {
		return nil, job.Unreadable
	}
	copied := *job
	err := decode(&copied)
	if action, ok := queue.ActionOf(err); ok && action == queue.Dead {
		err = errors.Unwrap(err)
	}
	if err != nil {
		return nil, err
	}
	return &copied, nil
}

var errNotBase64 = errors.New("the payload is not a JSON string of base64, although its " + EncodingHeader + " header says so")

// payloadBytes returns the bytes that the next encoding applies to, or that the last one produced:
// the payload itself, or what its base64 stands for if e is not empty.
func payloadBytes(e encodings, payload json.RawMessage) ([]byte, error) {
	if e == "" {
		if payload == nil {
			return []byte("null"), nil
		}
		return payload, nil
	}
	text, err := unquote(payload)
	if err != nil {
		return nil, errNotBase64
	}
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(data, text)
	if err != nil {
		return nil, errNotBase64
	}
	return data[:n], nil
}

// unquote returns the text of a JSON string. Base64 needs no escapes, and without them unquote does
// not use the parser, which takes ten times as long.
func unquote(payload json.RawMessage) ([]byte, error) {
	if n := len(payload); n >= 2 && payload[0] == '"' && payload[n-1] == '"' && !bytes.Contains(payload, []byte(`\`)) {
		return payload[1 : n-1], nil
	}
	var text string
	err := json.Unmarshal(payload, &text)
	return []byte(text), err
}

// setPayload is the inverse of payloadBytes. It replaces the job's headers, because the job shares
// them with the one that it was copied from.
func setPayload(job *queue.Job, e encodings, data []byte) {
	headers := maps.Clone(job.Headers)
	if e == "" {
		delete(headers, EncodingHeader)
		job.Payload, job.Headers = data, headers
		return
	}
	if headers == nil {
		headers = make(map[string]string, 1)
	}
	headers[EncodingHeader] = string(e)
	text := make([]byte, encodedLen(len(data)))
	base64.StdEncoding.Encode(text[1:], data)
	text[0], text[len(text)-1] = '"', '"'
	job.Payload, job.Headers = text, headers
}

// encodedLen returns the length of the payload that stands for n bytes.
func encodedLen(n int) int { return base64.StdEncoding.EncodedLen(n) + len(`""`) }
