// Package sqlkit holds what the SQL backends share.
package sqlkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

// KeyRounds is how often Enqueue tries to write a job whose key is taken by a job that has ended
// before Enqueue can read its id.
const KeyRounds = 20

// ErrKeyRounds is the error after KeyRounds.
var ErrKeyRounds = errors.New("other jobs with the same key are enqueued and end faster than this job can be written")

// Invalid returns a [*queue.InvalidError] for the field.
func Invalid(field, format string, args ...any) error {
	return &queue.InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Wrap puts the names of the backend and of the operation before err, once for each call. A driver
// whose statement was ended by ctx may return an error of its own: then Wrap adds ctx's.
func Wrap(ctx context.Context, backend, operation string, err error) error {
	if err == nil {
		return nil
	}
	if ended := ended(ctx); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%s: %s: %w: %w", backend, operation, ended, err)
	}
	return fmt.Errorf("%s: %s: %w", backend, operation, err)
}

// ended returns ctx's error, also if ctx's deadline has passed but its timer has not fired yet. A
// driver passes the deadline to the network, whose timer may fire first.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return nil
}

// maxName is how long a schema or prefix may be, in bytes, so that the longest name of an index
// still fits.
const maxName = 48

// CheckName returns a [*queue.InvalidError] for the field unless name can be part of a statement
// without quotes or escapes.
func CheckName(field, name string) error {
	if len(name) > maxName {
		return Invalid(field, "%d bytes: at most %d", len(name), maxName)
	}
	for i, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
		digit := '0' <= c && c <= '9'
		if !letter && (!digit || i == 0) {
			return Invalid(field, "%q: letters, digits and underscores, not beginning with a digit", name)
		}
	}
	return nil
}
