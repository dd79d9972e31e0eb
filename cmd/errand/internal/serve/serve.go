package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// serve serves until ctx ends, and then until the open requests have been answered. It breaks off
// requests that take longer than drainTime, because their clients are slow.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	under := &underWay{next: handler}
	server := newServer(under, log)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	if shutDown(server, drainTime) {
		return nil
	}
	for end := time.Now().Add(actionTime - drainTime); under.actions.Load() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if !shutDown(server, 100*time.Millisecond) { // until the answers are sent
		log.Warn("errand: web: broke off requests of slow clients")
	}
	return server.Close()
}

// newServer returns a server that no slow client keeps busy for long.
func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       readTime,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// shutDown makes the server take no further requests, and waits for the open requests, but not for
// longer than limit. It reports whether all requests have ended.
func shutDown(server *http.Server, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return server.Shutdown(ctx) == nil
}

// underWay counts the actions under way: their forms have arrived, and their handlers run.
type underWay struct {
	next    http.Handler
	actions atomic.Int64
}

// ServeHTTP implements [http.Handler].
func (u *underWay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		form := &form{ReadCloser: r.Body, under: u}
		r.Body = form
		defer form.end()
	}
	u.next.ServeHTTP(w, r)
}

// form is the body of an action's request.
type form struct {
	io.ReadCloser
	under      *underWay
	hasArrived bool
}

// Read implements [io.Reader].
func (f *form) Read(b []byte) (int, error) {
	n, err := f.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) && !f.hasArrived {
		f.hasArrived = true
		f.under.actions.Add(1)
	}
	return n, err
}

// end is called when the handler has returned.
func (f *form) end() {
	if f.hasArrived {
		f.under.actions.Add(-1)
	}
}
