package data

import (
	"context"
	"database/sql"
	_ "embed"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/queue"
)

//go:embed race.sql
var raceSQL string

// place is where a statement stops: see race.sql.
type place string

const (
	nowhere place = ""
	seen    place = "seen"
	locked  place = "locked"
)

// The names of both sides' sessions.
const (
	settler   = "settler"
	reclaimer = "reclaimer"
)

// runner is errand on one session, whose statements stop at a place.
type runner struct {
	db        *sql.DB
	kept, not *postgres.Backend // completed jobs are kept, or not
}

// track is what all trials share.
type track struct {
	harness *harness.Harness
	gate    *pgx.Conn // holds the locks that statements stop at
	reader  *pgxpool.Pool
	runners map[string]map[place]runner
}

func newTrack(ctx context.Context, h *harness.Harness) (*track, error) {
	if err := h.Exec(ctx, raceSQL); err != nil {
		return nil, err
	}
	t := &track{harness: h, runners: make(map[string]map[place]runner)}
	var err error
	if t.gate, err = pgx.Connect(ctx, h.DSN()); err != nil {
		return nil, err
	}
	if t.reader, err = pgxpool.New(ctx, h.DSN()); err != nil {
		return nil, err
	}
	settings := map[place][]string{nowhere: nil, seen: {"role", "chaos_seen", "chaos.stop_at", "seen"}, locked: {"chaos.stop_at", "locked"}}
	for _, name := range []string{settler, reclaimer} {
		t.runners[name] = make(map[place]runner)
		for at, with := range settings {
			r, err := newRunner(h.DSN(append(with, "application_name", name)...))
			if err != nil {
				return nil, err
			}
			t.runners[name][at] = r
		}
	}
	return t, nil
}

func newRunner(dsn string) (r runner, err error) {
	if r.db, err = sql.Open("pgx", dsn); err != nil {
		return r, err
	}
	if r.kept, err = postgres.New(r.db, postgres.Options{}); err != nil {
		return r, err
	}
	r.not, err = postgres.New(r.db, postgres.Options{Retention: queue.Retention{Completed: -1}})
	return r, err
}

func (t *track) close() {
	for _, by := range t.runners {
		for _, r := range by {
			r.db.Close()
		}
	}
	t.gate.Close(context.Background())
	t.reader.Close()
}
