// Package sqliteerr reports what an error of a SQLite driver means, for all drivers.
package sqliteerr

import (
	"errors"
	"reflect"
	"strings"
)

// SQLite's result codes, https://www.sqlite.org/rescode.html.
const (
	codeBusy              = 5
	codeNoMemory          = 7
	codeReadOnly          = 8
	codeDisk              = 10
	codeFull              = 13
	codeCannotOpen        = 14
	codeTooLong           = 18
	codeConstraint        = 19
	codeProtocol          = 15 // the WAL index was in use for longer than SQLite would wait
	codeLockedSharedCache = 6 | 1<<8
	codeBusySnapshot      = codeBusy | 2<<8
)

// IsBusy reports whether another connection had a lock that the statement needed.
func IsBusy(err error) bool {
	code := resultCode(err)
	return code&0xff == codeBusy || code == codeProtocol || code == codeLockedSharedCache
}

// IsStale reports whether the transaction can never write, because it has read data that another
// transaction has changed since.
func IsStale(err error) bool { return resultCode(err) == codeBusySnapshot }

// IsTooLong reports whether a text was longer than SQLite accepts. That is a billion bytes, unless
// the program has set a lower limit.
func IsTooLong(err error) bool { return resultCode(err)&0xff == codeTooLong }

// IsConstraint reports whether a constraint refused a row, or a trigger by RAISE.
func IsConstraint(err error) bool { return resultCode(err)&0xff == codeConstraint }

// IsDiskError reports whether the disk failed. A commit may have succeeded all the same.
func IsDiskError(err error) bool { return resultCode(err)&0xff == codeDisk }

// IsFull reports whether the disk, or the file, had no room. SQLite has rolled back what it was
// writing, also at a commit: what makes a commit valid is the last thing that is written of it.
func IsFull(err error) bool { return resultCode(err)&0xff == codeFull }

// IsOfFile reports whether the file cannot be written now, or memory is short, whatever the
// statement was.
func IsOfFile(err error) bool {
	switch resultCode(err) & 0xff {
	case codeNoMemory, codeReadOnly, codeDisk, codeFull, codeCannotOpen:
		return true
	}
	return false
}

// IsWithinTx reports whether BEGIN failed because the connection is in a transaction.
func IsWithinTx(err error) bool {
	return err != nil && strings.Contains(err.Error(), "within a transaction")
}

// resultCode returns the extended result code in a driver's error, or 0. Drivers share no interface
// for it: the error of modernc has a method, and the error of mattn a field. For other drivers it
// looks at the text.
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
	switch text := err.Error(); {
	case strings.Contains(text, "database is locked"):
		return codeBusy
	case strings.Contains(text, "database or disk is full"):
		return codeFull
	case strings.Contains(text, "constraint failed"):
		return codeConstraint
	}
	return 0
}

// codeField returns the field ExtendedCode of the first error in err's tree that has this field, or
// 0.
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
