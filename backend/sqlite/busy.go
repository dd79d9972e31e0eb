package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"
)

// SQLite's result codes, https://www.sqlite.org/rescode.html.
const (
	codeBusy              = 5
	codeDisk              = 10
	codeTooLong           = 18
	codeProtocol          = 15 // the WAL index was in use for longer than SQLite would wait
	codeLockedSharedCache = 6 | 1<<8
	codeBusySnapshot      = codeBusy | 2<<8
)

// isBusy says that another connection has a lock that err's statement needed.
func isBusy(err error) bool {
	code := resultCode(err)
	return code&0xff == codeBusy || code == codeProtocol || code == codeLockedSharedCache
}

// isStale says that err's statement cannot write in its transaction any more: it has
// read what another has changed since.
func isStale(err error) bool { return resultCode(err) == codeBusySnapshot }

// isTooLong says that a text is longer than SQLite accepts, a billion bytes unless the program has set less.
func isTooLong(err error) bool { return resultCode(err)&0xff == codeTooLong }

// isDiskError says that the disk failed, which it may have done when a commit was all but through.
func isDiskError(err error) bool { return resultCode(err)&0xff == codeDisk }

// isWithinTx says that err is of a BEGIN within a transaction.
func isWithinTx(err error) bool {
	return err != nil && strings.Contains(err.Error(), "within a transaction")
}

// resultCode is the extended result code that a driver's error tells, or 0. There
// is no interface for it: modernc's error has a method, mattn's a field, and
// of others the text is known.
func resultCode(err error) int {
	if err == nil {
		return 0
	}
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	if code := codeField(err); code != 0 {
		return code
	}
	if strings.Contains(err.Error(), "database is locked") {
		return codeBusy
	}
	return 0
}

// codeField is the field ExtendedCode of the first error in err's tree that has it, or 0.
func codeField(err error) int {
	if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct {
		if code := v.FieldByName("ExtendedCode"); code.IsValid() && code.CanInt() {
			return int(code.Int())
		}
	}
	switch u := any(err).(type) {
	case interface{ Unwrap() error }:
		if within := u.Unwrap(); within != nil {
			return codeField(within)
		}
	case interface{ Unwrap() []error }:
		for _, within := range u.Unwrap() {
			if code := codeField(within); code != 0 {
				return code
			}
		}
	}
	return 0
}

// patiently runs f until it does not meet another's lock any more, ctx ends, or timeout is
// over. What f does is undone when it fails.
func patiently(ctx context.Context, timeout time.Duration, f func() error) error {
	return patientlySince(ctx, time.Now(), timeout, f)
}

// patientlySince is patiently for a call that has begun to wait before. It runs f once, at least.
func patientlySince(ctx context.Context, start time.Time, timeout time.Duration, f func() error) error {
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := f()
		if err == nil || !isBusy(err) {
			return err
		}
		if time.Since(start) > timeout {
			return fmt.Errorf("another transaction has had the write lock for %v: %w", timeout, err)
		}
		// SQLite tells nobody that its lock is free. Writers that sleep for longer and longer
		// would be passed by all others, and those that hardly sleep would leave the lock
		// to nobody else: to a transaction of the caller's, which has SQLite's own patience.
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(rand.Int64N(int64(time.Millisecond) << min(try/2, 4)))):
		}
	}
}
