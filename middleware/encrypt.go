package middleware

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/errandhq/errand/queue"
)

// Keys are AES keys by their IDs: 16, 24 or 32 random bytes each, for AES-128, -192 and -256. The
// ID is written beside each payload that its key has encrypted. It consists of 1 to 100 printable
// ASCII characters without spaces, commas and semicolons.
//
// Package fmt, log/slog and encoding/json show the IDs and not the keys, with one exception: fmt
// shows everything in a struct's unexported field.
type Keys map[string][]byte

// EncryptOptions configure [NewEncrypt]. Keys and Current are required.
type EncryptOptions struct {
	// Keys holds the key that encrypts new jobs, and older keys that jobs in the table still need.
	Keys Keys
	// Current is the ID of the key that encrypts new jobs.
	Current string
	// AllowPlain passes jobs that are not encrypted to the handlers. Set it while such jobs from
	// before are left. Meanwhile everybody who can write to the table can make up jobs; otherwise
	// that takes a key.
	AllowPlain bool
}

// Encrypt encrypts payloads with AES-GCM. Its Enqueuer belongs in the programs that enqueue, its
// Handler in the workers. [NewEncrypt] makes one; the methods of the zero value panic. It is safe
// for concurrent use.
//
// Only the payload is encrypted. Queue, kind, key, headers and times stay readable, and so do the
// payload's length and the errors of handlers, which are kept with the job.
//
// A payload opens only in a job of the queue and kind that it was enqueued with, and with the same
// [EncodingHeader]. Somebody who can write to the table can still delete jobs, run them again, and
// exchange payloads between jobs of one queue and kind.
//
// To change keys, first give the new key to all workers. Then make it Current in all programs that
// enqueue. Remove the old key when no job needs it any more. A key is good for 2^32 payloads,
// because their nonces are random (NIST SP 800-38D, section 8.3): 49 days at a thousand a second.
//
// Jobs that do not pass the Enqueuer are plain: those of schedules, of errand enqueue, of the SQL
// function enqueue and INSERT. The Handler makes them dead, so give kinds that have such jobs the
// Handler of a second Encrypt, with AllowPlain, in [queue.Kind.Handle].
//
// To begin with encryption, first give the Handler to all workers, with AllowPlain. Then give the
// Enqueuer to all programs that enqueue. Remove AllowPlain when no plain job is left.
type Encrypt struct {
	// Pointers, because fmt does not follow those inside a struct.
	keys       map[string]*sealer
	current    string
	allowPlain bool
}

type sealer struct{ cipher.AEAD }

const (
	gcmName  = "aes-gcm"
	gcmEntry = gcmName + ";key=" // and the key's id
)

// NewEncrypt returns the pair of middleware with these keys, which it copies. If an option is out
// of range, the error is a [*queue.InvalidError] that names it and shows nothing of a key.
func NewEncrypt(o EncryptOptions) (*Encrypt, error) {
	if len(o.Keys) == 0 {
		return nil, &queue.InvalidError{Field: "Keys", Problem: "empty: give at least one key"}
	}
	c := &Encrypt{keys: make(map[string]*sealer, len(o.Keys)), current: o.Current, allowPlain: o.AllowPlain}
	ids := slices.Sorted(maps.Keys(o.Keys))
	for _, id := range ids {
		if problem := idProblem(id); problem != "" {
			return nil, &queue.InvalidError{Field: "Keys", Problem: problem}
		}
		aead, err := newAEAD(o.Keys[id])
		if err != nil {
			return nil, &queue.InvalidError{Field: "Keys", Err: err,
				Problem: fmt.Sprintf("the key %q has %d bytes: 16, 24 or 32", id, len(o.Keys[id]))}
		}
		c.keys[id] = &sealer{aead}
	}
	if c.keys[o.Current] == nil {
		return nil, &queue.InvalidError{Field: "Current", Problem: fmt.Sprintf("not one of the Keys, whose ids are %q", ids)}
	}
	return c, nil
}

// idProblem says what is wrong with a key's ID. It does not show the ID: a caller who mixed up IDs
// and keys gets this error.
func idProblem(id string) string {
	const most = 100
	if id == "" || len(id) > most {
		return fmt.Sprintf("an id of %d bytes: between 1 and %d", len(id), most)
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' || c == ',' || c == ';' {
			return "an id with a character that is a space, a comma, a semicolon or not printable ASCII"
		}
	}
	return ""
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Enqueuer is a [queue.EnqueueMiddleware]. It makes 4n/3 + 40 bytes of a payload of n bytes; the
// backend's limit applies to these. Enqueueing a job that is already encrypted returns a
// [*queue.InvalidError].
func (c *Encrypt) Enqueuer(next queue.Enqueuer) queue.Enqueuer {
	c.mustBeMade()
	return encodeJobs(next, c.seal)
}

// Handler is a [queue.Middleware]. A job is dead at once if it is not encrypted (but see
// AllowPlain), or does not open with the key that it names. A job that names a key that c does not
// have fails and is retried, because the key may be on its way. So does a job that was encoded once
// more after it was encrypted, because the chain is in the wrong order.
func (c *Encrypt) Handler(next queue.Handler) queue.Handler {
	c.mustBeMade()
	return decodeJob(next, c.open)
}

// Open returns a copy of job with the payload that was encrypted, for pages that show jobs. job may
// be a [queue.Record]'s Job, in any status. Open tries the key that the job names, so give c the
// older keys, too. If the job was also compressed, call [Compress.Open] with the copy:
//
//	opened, err := secret.Open(&record.Job)
//	if err == nil {
//		opened, err = compress.Open(opened)
//	}
//
// The error says whether the job has no payload, as a reclaimed job of [engine.Worker].OnDead and
// an observer's records, or is not encrypted (but see AllowPlain, with which Open returns both as
// they are), names a key that c does not have, or does not open with its key. Open changes nothing
// of job.
func (c *Encrypt) Open(job *queue.Job) (*queue.Job, error) {
	c.mustBeMade()
	return openJob(job, c.open)
}

func (c *Encrypt) mustBeMade() {
	if c == nil || len(c.keys) == 0 {
		panic("middleware: Encrypt without keys: make it with NewEncrypt")
	}
}

func (c *Encrypt) seal(job *queue.Job) error {
	e := encodingsOf(job)
	if e.has(gcmEntry) {
		return &queue.InvalidError{Field: "Headers", Problem: EncodingHeader + " says that the payload is already encrypted"}
	}
	data, err := payloadBytes(e, job.Payload)
	if err != nil {
		return &queue.InvalidError{Field: "Payload", Problem: err.Error()}
	}
	e = e.push(gcmEntry + c.current)
	setPayload(job, e, c.keys[c.current].Seal(nil, nil, data, associated(job, e)))
	return nil
}

var (
	errAbsent    = errors.New("middleware: the job has no payload to open; a reclaimed job that OnDead gets has none: read its record")
	errPlain     = errors.New("middleware: the payload is not encrypted, and EncryptOptions.AllowPlain is not set")
	errNotOpened = errors.New("either the key of that id was another one, or the payload, the job's queue or kind, or its " +
		EncodingHeader + " header has been changed")
)

func (c *Encrypt) open(job *queue.Job) error {
	e := encodingsOf(job)
	below, last := e.pop()
	id, encrypted := strings.CutPrefix(last, gcmEntry)
	switch {
	case encrypted:
	case e.has(gcmEntry):
		return misplaced(last, "Encrypt")
	case c.allowPlain:
		return nil
	case job.Payload == nil:
		return queue.Discard(errAbsent)
	default:
		return queue.Discard(errPlain)
	}
	key := c.keys[id]
	if key == nil {
		return fmt.Errorf("middleware: the payload is encrypted with the key %q, which Encrypt does not have", id)
	}
	sealed, err := payloadBytes(e, job.Payload)
	if err != nil {
		return queue.Discard(fmt.Errorf("middleware: %w", err))
	}
	data, err := key.Open(nil, nil, sealed, associated(job, e))
	if err != nil {
		return queue.Discard(fmt.Errorf("middleware: the payload does not open with the key %q: %w", id, errNotOpened))
	}
	setPayload(job, below, data)
	return nil
}

// associated returns what the payload is bound to. Each part follows its length, so no two jobs
// give the same bytes.
func associated(job *queue.Job, e encodings) []byte {
	name := job.Queue
	if name == "" {
		name = queue.DefaultQueue
	}
	var data []byte
	for _, part := range []string{"errand", name, job.Kind, string(e)} {
		data = binary.AppendUvarint(data, uint64(len(part)))
		data = append(data, part...)
	}
	return data
}

// Format implements [fmt.Formatter]. It shows the IDs, whatever the verb.
func (k Keys) Format(f fmt.State, _ rune) { fmt.Fprint(f, k.ids()) }

// MarshalText implements [encoding.TextMarshaler], for encoding/json and log/slog. It shows the
// IDs.
func (k Keys) MarshalText() ([]byte, error) { return []byte(k.ids()), nil }

func (k Keys) ids() string {
	return fmt.Sprintf("middleware.Keys%q", slices.Sorted(maps.Keys(k)))
}
