package child

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	labpeer "github.com/errandhq/errand/lab/internal/peer"
)

// Gateway is what a gateway does: it serves errand on Postgres over HTTP, until SIGTERM.
type Gateway struct {
	Address string `json:"address"` // to listen on
}

const (
	// gatewayConnections is how many connections a gateway has to the server.
	gatewayConnections = 16
	// gatewayReclaim is how often a gateway reclaims expired jobs.
	gatewayReclaim = time.Second
	// gatewayGrace is how long a gateway takes to end at most.
	gatewayGrace = 10 * time.Second
)

func serve(ctx context.Context, s *self) error {
	db, err := labpeer.OpenDB("pgx", s.DSN, gatewayConnections)
	if err != nil {
		return err
	}
	defer db.Close()
	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	clients := gateway.Access{Name: "clients", Queues: []string{gateway.AllQueues}, May: gateway.Work | gateway.Enqueue}
	g, err := gateway.New(q, gateway.Options{Tokens: []gateway.Token{{Secret: peer.Token, Access: clients}}, Reclaim: gatewayReclaim, Logger: log})
	if err != nil {
		return err
	}
	defer g.Close()
	server := &http.Server{Addr: s.Gateway.Address, Handler: g}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	g.Drain()
	ending, cancel := context.WithTimeout(context.Background(), gatewayGrace)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}
