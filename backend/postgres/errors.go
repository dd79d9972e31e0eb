package postgres

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/errandhq/errand/queue"
)

// The SQLSTATE codes that more than one function asks for.
const (
	serializationFailure = "40001"
	deadlock             = "40P01"
	uniqueViolation      = "23505"
	noSuchStatement      = "26000"
	duplicateStatement   = "42P05"
	lockNotAvailable     = "55P03" // lock_timeout is over
	queryCanceled        = "57014"
	protocolViolation    = "08P01"
	idleTooLong          = "25P03" // see limitIdleTx
	sequenceExhausted    = "2200H"
	notSupported         = "0A000"
	readOnlyTransaction  = "25006" // the server has become a standby
	internalError        = "XX000"
	dataCorrupted        = "XX001"
	undefinedColumn      = "42703"
	undefinedTable       = "42P01"
	undefinedFunction    = "42883"
	rulesChanged         = "ERUL1" // see sql/migrations/0006_limited.sql
)

// sqlState returns the SQLSTATE code of err, which both drivers' errors tell, or "".
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// isRefused reports whether the server has answered that nothing was written. A session that the
// server ends (class 08, 57P01 and the like) may have committed before, and have been waiting for
// a standby to confirm it. Of class 08 is also what PgBouncer answers, having sent nothing on,
// while it cannot log in to the server.
func isRefused(err error) bool {
	code := sqlState(err)
	if code == protocolViolation && strings.Contains(err.Error(), "server login has been failing") {
		return true
	}
	return code != "" && !strings.HasPrefix(code, "08") && !strings.HasPrefix(code, "57P")
}

// withCure adds the cure to the error of a prepared statement that another session has, as through
// a pooler in transaction mode that does not keep them, and to that of an unlogged table on a
// standby.
func withCure(err error) error {
	code := sqlState(err)
	if code == noSuchStatement || code == duplicateStatement ||
		code == protocolViolation && strings.Contains(err.Error(), "prepared statement") {
		return fmt.Errorf("%w: a pooler in transaction mode swaps the sessions: for pgx, add default_query_exec_mode=exec to the URL (docs/poolers.md)", err)
	}
	if code == notSupported && strings.Contains(err.Error(), "unlogged") {
		return fmt.Errorf("%w: the server is a standby, which does not have the live workers: connect to the primary (target_session_attrs=read-write)", err)
	}
	return err
}

// isUnsent reports whether the driver knows that nothing has reached the server, as pgx may.
func isUnsent(err error) bool {
	var s interface{ SafeToRetry() bool }
	return errors.As(err, &s) && s.SafeToRetry()
}

// isBroken reports whether the connection broke. A driver that sends a long request learns in this
// way, and not by a code, that the server has ended the session.
func isBroken(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok || errors.Is(err, io.ErrUnexpectedEOF)
}

// errLockBusy: a statement gave up on a lock instead of waiting. A retry normally succeeds.
var errLockBusy = errors.New("would wait for a lock")

// asLockBusy makes an errLockBusy of the error of a statement that gave up on a lock.
func asLockBusy(err error) error {
	if sqlState(err) == lockNotAvailable {
		return fmt.Errorf("%w: %w", errLockBusy, err)
	}
	return err
}

// lockTimedOut reports whether a statement gave up waiting for a lock. If the timeout fires just as
// the lock arrives, PostgreSQL reports 57014 at the next lock.
func lockTimedOut(err error) bool {
	code := sqlState(err)
	return code == lockNotAvailable || code == queryCanceled
}

// isDataError reports whether the server refused to work on the data of some row, such as a
// payload whose numbers it cannot print in a gigabyte. Such an error does not name the row.
func isDataError(err error) bool {
	code := sqlState(err)
	if len(code) != 5 {
		return false
	}
	switch code[:2] {
	case "22", "54": // data exception, program limit exceeded
		return code != sequenceExhausted
	}
	// "invalid memory alloc request size" has no code of its own. A payload whose TOAST is damaged
	// has dataCorrupted.
	return code == internalError || code == dataCorrupted
}

// isOfRow reports whether a statement may have failed because of one of its rows: the row is
// damaged, or a trigger or a constraint of the application's refuses it. It is not the error of a
// connection, of a lock, of the server's resources or rights, or of errand's own functions.
func isOfRow(err error) bool {
	code := sqlState(err)
	if _, ok := errors.AsType[*queue.SetupError](err); ok || len(code) != 5 {
		return false
	}
	switch code[:2] {
	case "20", "21", "22", "23", "27", "38", "39", "44", "54", "P0", "XX":
		return code != sequenceExhausted
	}
	return code == undefinedColumn || code == undefinedTable || code == undefinedFunction // in a trigger
}

// isOfServer reports whether the connection or the server failed, whatever the statement was: the
// session ended, resources were short, the disk failed, or the server has become a standby. A
// pooler may answer so, too.
func isOfServer(err error) bool {
	code := sqlState(err)
	if len(code) != 5 {
		return true
	}
	switch code[:2] {
	case "08", "53", "58": // connection exception, insufficient resources, system error
		return true
	}
	return strings.HasPrefix(code, "57P") || code == idleTooLong || code == readOnlyTransaction
}

// leastRefused is how many bytes of parameters a statement has at least that the server refuses for
// its payloads: it keeps 64 MiB of a jsonb, which takes up to six times the bytes of its text.
const leastRefused = 8 << 20

// payloadTooLarge makes a [*queue.InvalidError] of the server's answer that it cannot make a jsonb
// of a payload, or of all payloads together. That depends on how many values they have, and
// happens only where MaxPayload is far above its default. size is how many bytes were sent: the
// same codes also come from triggers, and from a full queue of notifications (54000), when a retry
// may succeed.
func payloadTooLarge(err error, size int) error {
	const programLimitExceeded, checkViolation = "54000", "23514"
	if err == nil || size < leastRefused {
		return err
	}
	code, text := sqlState(err), err.Error()
	if code == programLimitExceeded && strings.Contains(text, "jsonb") || // in every language of the server
		code == internalError && strings.Contains(text, "invalid memory alloc request size") ||
		code == checkViolation && strings.Contains(text, "jobs_values_check") {
		return &queue.InvalidError{Field: "Payload", Problem: "more than the server can keep in a jsonb", Err: err}
	}
	return err
}

// unlessRefused makes a [queue.ErrUnknown] of the error of a write outside a transaction, unless
// the server has refused it, or the connection was closed before.
func unlessRefused(err error) error {
	if err == nil || isRefused(err) || errors.Is(err, sql.ErrConnDone) {
		return err
	}
	return fmt.Errorf("%w: %w", queue.ErrUnknown, err)
}
