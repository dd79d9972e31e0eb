package soak

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/scenario/processes"
	"github.com/errandhq/errand/lab/chaos/internal/scenario/servers"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

// soakFault is a fault that the soak repeats.
type soakFault struct {
	name   string
	strike func(ctx context.Context, s *soaked) error
}

// soakFaults are the faults of the other scenarios.
var soakFaults = []soakFault{
	{"SIGKILL", soakKill},
	{"SIGSTOP", soakFreeze},
	{"SIGTERM", soakDeploy},
	{"pg_terminate_backend", func(ctx context.Context, s *soaked) error { return s.Terminate(ctx) }},
	{"crash", soakCrash},
	{"statement_timeout", func(ctx context.Context, s *soaked) error {
		_, err := servers.LimitStatements(ctx, s.Harness, s.lasting())
		return err
	}},
	{"max_connections", func(ctx context.Context, s *soaked) error {
		_, err := servers.TakeConnections(ctx, s.Harness, s.lasting())
		return err
	}},
	{"isolation", soakIsolation},
	{"pinned xmin", soakPin},
	{"migration", func(ctx context.Context, s *soaked) error { return s.Peer.Install(ctx) }},
}

// lasting draws how long a fault lasts.
func (s *soaked) lasting() time.Duration {
	return seed.Between(s.draw, harness.Size(s.Harness, 3*time.Second, time.Second/2), harness.Size(s.Harness, 20*time.Second, time.Second))
}

// victim draws a place other than the first.
func (s *soaked) victim() int { return 1 + s.draw.IntN(3) }

func soakKill(ctx context.Context, s *soaked) error {
	place := s.victim()
	if err := s.crew.Kill(ctx, place); err != nil {
		return err
	}
	return s.crew.Replace(place)
}

func soakDeploy(_ context.Context, s *soaked) error {
	_, err := processes.DeployOne(s.Harness, s.crew, seed.Strike{Victim: s.victim(), Draw: s.draw.Uint64()})
	return err
}

func soakFreeze(ctx context.Context, s *soaked) error {
	place := s.draw.IntN(4)
	if _, err := s.crew.Freeze(ctx, place); err != nil {
		return err
	}
	if err := s.Sleep(ctx, seed.Between(s.draw, 0, 2*leaseOfSoaked)); err != nil {
		return err
	}
	return s.crew.At(place).Thaw()
}

func soakCrash(ctx context.Context, s *soaked) error {
	_, err := servers.CrashOnce(ctx, s.Harness, seed.Strike{Victim: s.draw.IntN(2), Draw: s.draw.Uint64()})
	return err
}

// soakIsolation gives new sessions another isolation level for a while.
func soakIsolation(ctx context.Context, s *soaked) error {
	levels := []string{"repeatable read", "serializable"}
	set := "ALTER DATABASE " + harness.Database + " SET default_transaction_isolation = "
	return errors.Join(
		s.Exec(ctx, set+"'"+levels[s.draw.IntN(len(levels))]+"'"), s.Terminate(ctx),
		s.Sleep(ctx, s.lasting()),
		s.Exec(ctx, set+"'read committed'"), s.Terminate(ctx),
	)
}

// soakPin keeps the server from removing dead rows for a while.
func soakPin(ctx context.Context, s *soaked) error {
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM errand.jobs"); err != nil {
		return err
	}
	s.RecordFault(audit.Fault{What: "pinned xmin", At: time.Now(), Worker: "nobody"})
	return s.Sleep(ctx, 2*s.lasting())
}
