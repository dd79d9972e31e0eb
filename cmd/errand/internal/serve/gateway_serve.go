package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/health"
	"github.com/errandhq/errand/queue"
)

// lastRequests is how long open requests may take once no new ones are taken. A call of the
// database takes up to ten seconds.
const lastRequests = 15 * time.Second

// serve serves until ctx ends. Then it drains: it serves on for drainWait, so that workers settle
// and load balancers notice, and then ends the open requests.
func (g *gatewayServer) serve(ctx context.Context, listener net.Listener, q queue.Queue, handler *gateway.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.Handle("/live", health.Live())
	ready := &health.Readiness{Queue: q, Logger: g.logger}
	mux.HandleFunc("/ready", func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil {
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "not ready: the gateway is about to end")
			return
		}
		ready.ServeHTTP(w, r)
	})
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(g.logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	g.logger.Info("errand: gateway: draining", "serves_on_for", g.drainWait.String())
	handler.Drain()
	select {
	case err := <-failed:
		return err
	case <-time.After(g.drainWait):
	}
	if !shutDown(server, lastRequests) {
		g.logger.Warn("errand: gateway: broke off requests that took too long")
		_ = server.Close() // the listener is closed
	}
	g.logger.Info("errand: gateway: ended")
	return nil
}
