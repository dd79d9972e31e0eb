package child

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	labpeer "github.com/errandhq/errand/lab/internal/peer"
)

// gatewayConnections is the size of the gateway's pool.
const gatewayConnections = 20

// serveGateway serves errand at Address until it is told to end.
func serveGateway(ctx context.Context, s *self) (f Figures, err error) {
	db, err := labpeer.OpenDB("pgx", s.DSN, gatewayConnections)
	if err != nil {
		return nil, err
	}
	defer closing(db, &err)
	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
	if err != nil {
		return nil, err
	}
	g, err := gateway.New(q, gateway.Options{
		Tokens: []gateway.Token{{Secret: peer.GatewayToken, Access: gateway.Access{Name: "bench", Queues: []string{gateway.AllQueues}, May: gateway.Work | gateway.Enqueue}}},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, err
	}
	defer g.Close()
	return nil, s.serve(ctx, g)
}

// serve serves HTTP at Address until the child is told to end.
func (s *self) serve(ctx context.Context, handler http.Handler) error {
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err := s.begin(); err != nil {
		return err
	}
	if s.SampleEvery > 0 {
		go s.sampleHeap(ctx)
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	if err := server.Close(); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
