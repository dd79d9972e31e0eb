// Package reach says in a sentence why a database cannot be reached. It serves doctor, explain and
// cmd/errand.
package reach

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
)

// Error is the error of a database that cannot be reached. Its text is a sentence for people, and
// it wraps the driver's error.
type Error struct {
	Problem string // why
	Advice  string // what to do about it
	Answers bool   // the database answers, but not every call: a pooler swaps the sessions
	Err     error
}

func (e *Error) Error() string {
	if e.Answers {
		return e.Problem
	}
	return "the database cannot be reached: " + e.Problem
}

// Unwrap returns the driver's error.
func (e *Error) Unwrap() error { return e.Err }

// The codes of errors that mean that there is no session with the server.
const (
	invalidAuthorization = "28000"
	invalidPassword      = "28P01"
	noSuchDatabase       = "3D000"
	tooManyConnections   = "53300"
	cannotConnectNow     = "57P03"
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
	connectionException  = "08" // and three more digits
	protocolViolation    = "08P01"
	duplicateStatement   = "42P05"
	noSuchStatement      = "26000"
)

// LookAtServer is the Advice if nothing better is known.
const LookAtServer = "look whether the server runs, and whether the URL and the network are right"

// Check returns err as an *Error if it means that there is no connection to the database, and else
// nil. It knows the errors of pgx, lib/pq and rueidis.
func Check(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := &Error{Err: err, Advice: LookAtServer}
	var isCut bool
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		isCut = e.refused(coded.SQLState())
	} else {
		isCut = e.unanswered() || e.refusedByRedis()
	}
	if isCut {
		return e
	}
	return nil
}

// isLostStatement reports whether an error means that the prepared statements of a session are not
// those that its driver has prepared.
func isLostStatement(code string, err error) bool {
	return code == duplicateStatement || code == noSuchStatement ||
		code == protocolViolation && strings.Contains(err.Error(), "prepared statement")
}

// refused says what a code means with which a server refuses or ends a session. It reports whether
// the code is one of these.
func (e *Error) refused(code string) bool {
	switch {
	case code == invalidPassword, code == invalidAuthorization:
		e.Problem, e.Advice = "the server refuses this user or its password", "look at the user and the password of the URL, and at the server's pg_hba.conf"
	case code == noSuchDatabase:
		e.Problem, e.Advice = "the server has no database of this name", "look at the name in the URL"
	case code == tooManyConnections:
		e.Problem, e.Advice = "the server has no connection left", "lower the pools of the programs, or raise max_connections"
		switch text := e.Err.Error(); {
		case strings.Contains(text, "too many connections for database"):
			e.Problem, e.Advice = "the database has no connection left, by its own limit", "lower the pools of the programs, or ALTER DATABASE … CONNECTION LIMIT"
		case strings.Contains(text, "too many connections for role"):
			e.Problem, e.Advice = "the role has no connection left, by its own limit", "lower the pools of the programs, or ALTER ROLE … CONNECTION LIMIT"
		}
	case isLostStatement(code, e.Err): // the driver's, of another session
		e.Answers = true
		e.Problem = fmt.Sprintf("a pooler in transaction mode swaps the sessions, and keeps no prepared statements: %v", e.Err)
		e.Advice = "for pgx, add default_query_exec_mode=exec to the URL (docs/poolers.md)"
	case code == cannotConnectNow:
		e.Problem, e.Advice = "the server is starting or stopping", "ask again in a few seconds"
	case code == protocolViolation: // so a pooler says anything
		e.Problem = fmt.Sprintf("the server or its pooler refuses the connection: %v", e.Err)
	case code == adminShutdown, code == crashShutdown, strings.HasPrefix(code, connectionException):
		e.Problem = "the server has ended the connection"
	default:
		return false
	}
	return true
}

// refusedByRedis says what an answer of Redis means. It reports whether it means that the server
// takes no calls from this client, or none now. The first word of an answer is its code.
func (e *Error) refusedByRedis() bool {
	if e.Err == nil {
		return false
	}
	inner := e.Err
	for next := errors.Unwrap(inner); next != nil; next = errors.Unwrap(inner) {
		inner = next
	}
	switch code, rest, _ := strings.Cut(inner.Error(), " "); code {
	case "NOAUTH":
		e.Problem, e.Advice = "the server wants a password", "put the user and the password into the URL, or the password into REDISCLI_AUTH"
	case "WRONGPASS":
		e.Problem, e.Advice = "the server refuses this user or its password", "look at the user and the password of the URL, or at REDISCLI_AUTH"
	case "LOADING":
		e.Problem, e.Advice = "the server is loading its data from disk", "ask again in a while"
	case "CLUSTERDOWN", "MASTERDOWN":
		e.Problem, e.Advice = "the server answers: "+code+" "+rest, "look at redis-cli CLUSTER INFO, and at the servers' logs"
	default:
		return false
	}
	return true
}

// unanswered says what an error of the network means. It reports whether the error is one.
func (e *Error) unanswered() bool {
	dns, isName := errors.AsType[*net.DNSError](e.Err)
	op, isOp := errors.AsType[*net.OpError](e.Err)
	timeout, isNet := errors.AsType[net.Error](e.Err)
	at := ""
	if isOp && op.Addr != nil {
		at = " at " + op.Addr.String()
	}
	switch {
	case isName:
		e.Problem, e.Advice = fmt.Sprintf("the host %q is not known", dns.Name), "look at the host in the URL"
	case errors.Is(e.Err, syscall.ECONNREFUSED), isOp && errors.Is(e.Err, fs.ErrNotExist):
		e.Problem = "no server listens" + at
	case isNet && timeout.Timeout(), errors.Is(e.Err, context.DeadlineExceeded):
		e.Problem = "the server" + at + " does not answer in time"
	case isOp && op.Op == "dial":
		e.Problem = fmt.Sprintf("no connection to the server%s: %v", at, op.Err)
	case isOp, errors.Is(e.Err, driver.ErrBadConn), errors.Is(e.Err, sql.ErrConnDone), errors.Is(e.Err, io.EOF),
		errors.Is(e.Err, io.ErrUnexpectedEOF), errors.Is(e.Err, net.ErrClosed):
		e.Problem = "the connection to the server broke"
	default:
		return false
	}
	return true
}
