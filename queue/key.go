package queue

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// KeyOf returns a [Job.Key] for a kind and fields, such as the IDs that the job is about: jobs have
// the same key if their kinds and all fields are equal, and otherwise different keys.
//
//	queue.KeyOf(WelcomeEmail.Name, user.ID)                             // email.welcome [42]
//	queue.KeyOf(Digest.Name, user.ID, now.UTC().Truncate(time.Hour))    // one an hour
//	queue.KeyOf(Digest.Name, user.ID, now.In(berlin).Format("2006-01")) // one a month
//
// Fields are equal if encoding/json writes them in the same way: 1 and int64(1) are, 1 and "1" are
// not. A time is taken in UTC. A field that JSON cannot express counts as fmt prints it. A key that
// would be longer than a key may be ends in a SHA-256 in place of the fields.
func KeyOf(kind string, fields ...any) string {
	var text bytes.Buffer
	text.WriteString(kind + " [")
	for i, f := range fields {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(keyField(f))
	}
	text.WriteByte(']')
	if text.Len() <= maxKey {
		return text.String()
	}
	sum := sha256.Sum256(text.Bytes())
	return kind + " " + hex.EncodeToString(sum[:])
}

// keyField returns a field as JSON, in which no comma or bracket of a text is bare.
func keyField(f any) string {
	if t, ok := f.(time.Time); ok {
		f = t.UTC()
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return keyField(fmt.Sprint(f))
	}
	return string(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
}
