package child

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"runtime/metrics"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	labpeer "github.com/errandhq/errand/lab/internal/peer"
	"github.com/errandhq/errand/web"
)

// dashboardConnections is the size of the pool that the dashboard shares with its application. More
// than it uses at once, so that none is closed and its processor time forgotten.
const dashboardConnections = 10

// dashboard serves errand's dashboard at Address until it is told to end. Its samples have the
// bytes of the heap that are in use.
func dashboard(ctx context.Context, s *self) (f Figures, err error) {
	db, err := labpeer.OpenDB("pgx", s.DSN, dashboardConnections)
	if err != nil {
		return nil, err
	}
	defer closing(db, &err)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		return nil, err
	}
	handler, err := web.New(q, web.Options{
		Authorize: web.Everyone(web.Admin),
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, err
	}
	defer handler.Close()
	mux := http.NewServeMux()
	mux.Handle("/errand/", http.StripPrefix("/errand", handler))
	return nil, s.serve(ctx, mux)
}

// sampleHeap reports the bytes of the heap that are in use, every SampleEvery.
func (s *self) sampleHeap(ctx context.Context) {
	inUse := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	tick := time.NewTicker(s.SampleEvery)
	defer tick.Stop()
	for {
		metrics.Read(inUse)
		if s.say("sample", Figures{"heap": float64(inUse[0].Value.Uint64() + inUse[1].Value.Uint64())}) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
