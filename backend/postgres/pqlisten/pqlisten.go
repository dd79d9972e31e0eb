// Package pqlisten lets a queue on lib/pq listen for notifications.
package pqlisten

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lib/pq"
)

// New returns a value for the Listen option of package postgres. dsn is the one that the database
// was opened with: lib/pq listens on a connection of its own beside the pool's. It does not work
// through a pooler in transaction mode.
//
// The value returns when that connection breaks, when the server does not answer within ten
// seconds, and, at once, when its context ends. Package postgres then calls it again.
func New(dsn string) func(ctx context.Context, db *sql.DB, channel string, ready func(), notify func(payload string)) error {
	return func(ctx context.Context, _ *sql.DB, channel string, ready func(), notify func(payload string)) error {
		if err := listen(ctx, new(net.Dialer).DialContext, dsn, channel, ready, notify); err != nil {
			return fmt.Errorf("pqlisten: %w", err)
		}
		return nil
	}
}

const (
	pingEvery     = 15 * time.Second // how often a silent connection is pinged
	answerTimeout = 10 * time.Second // for the server to answer
	retryPause    = time.Millisecond // of lib/pq's own retries, which never come to anything: the first failure ends listen
)

var errSilent = errors.New("the server has not answered for 10 s")

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// listen listens on one connection until it fails or ctx ends.
func listen(ctx context.Context, dial dialFunc, dsn, channel string, ready func(), notify func(payload string)) error {
	ctx, end := context.WithCancelCause(ctx)
	connected := make(chan struct{}, 1)
	l := pq.NewDialListener(dialer{ctx, dial}, dsn, retryPause, retryPause, func(_ pq.ListenerEventType, err error) {
		if err != nil {
			end(err)
			return
		}
		connected <- struct{}{}
	})
	defer func() {
		end(nil)
		go closeListener(l)
	}()
	err := answered(end, func() error {
		select {
		case <-connected:
			return l.Listen(channel)
		case <-ctx.Done():
			return nil
		}
	})
	if err != nil || ctx.Err() != nil {
		return cause(ctx, err)
	}
	ready()
	return receive(ctx, end, l, notify)
}

// receive passes notifications on, and pings the server in between.
func receive(ctx context.Context, end context.CancelCauseFunc, l *pq.Listener, notify func(payload string)) error {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return cause(ctx, nil)
		case n, ok := <-l.Notify:
			if !ok || n == nil { // the connection broke
				return cause(ctx, net.ErrClosed)
			}
			notify(n.Extra)
		case <-ping.C:
			if err := answered(end, l.Ping); err != nil {
				return cause(ctx, err)
			}
		}
	}
}

// answered runs f, which waits for the server, and ends the connection if that takes longer than
// answerTimeout.
func answered(end context.CancelCauseFunc, f func() error) error {
	defer time.AfterFunc(answerTimeout, func() { end(errSilent) }).Stop()
	return f()
}

// cause returns why ctx has ended, or err if it has not.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// closeListener closes l, whose connection is closed already, and waits until its goroutine has
// ended.
func closeListener(l *pq.Listener) {
	_ = l.Close()
	for range l.Notify { // lib/pq would wait for ever to deliver what is left
	}
}

// dialer dials for lib/pq, and closes the connection when ctx ends. lib/pq holds the listener's
// lock while it waits for the server, so [pq.Listener.Close] would wait for the server, too.
type dialer struct {
	ctx  context.Context
	dial dialFunc
}

// Dial implements [pq.Dialer].
func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialTimeout(network, address, answerTimeout)
}

// DialTimeout implements [pq.Dialer].
func (d dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, timeout)
	defer cancel()
	conn, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(d.ctx, func() { conn.Close() })
	return conn, nil
}
