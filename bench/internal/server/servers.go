// Package server finds or starts what the systems keep their jobs in.
package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/errandhq/errand/bench/internal/peer"
)

// Servers are all that a run uses. A server that could not be had is nil, and
// then the error that belongs to it says why.
type Servers struct {
	Postgres *Postgres
	Redis    *Redis
	RedisErr error
	NodeDir  string // of graphile-worker and the script that runs it
	NodeErr  error
}

// Start starts what the systems need: Postgres always, the others if one of the
// systems is theirs.
func Start(ctx context.Context, systems []peer.System) (*Servers, error) {
	s := &Servers{}
	var redis, node bool
	for _, system := range systems {
		redis = redis || system.Server == peer.Redis
		node = node || system.Node
	}
	if redis {
		s.Redis, s.RedisErr = startRedis(ctx)
	}
	if node {
		s.NodeDir, s.NodeErr = peer.PrepareNode(ctx)
	}
	var err error
	if s.Postgres, err = startPostgres(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Missing is why a system cannot be measured, or nil.
func (s *Servers) Missing(system peer.System) error {
	switch {
	case system.Server == peer.Redis && s.RedisErr != nil:
		return s.RedisErr
	case system.Node && s.NodeErr != nil:
		return s.NodeErr
	}
	return nil
}

// Config is how this process reaches a system.
func (s *Servers) Config(system peer.System) peer.Config {
	c := peer.Config{System: system.Name, DSN: s.Postgres.OwnDSN, Node: s.NodeDir}
	if s.Redis != nil {
		c.Redis = s.Redis.Address
	}
	return c
}

// Wipe empties the server of a system, and leaves it with nothing to write that
// was written before.
func (s *Servers) Wipe(ctx context.Context, system peer.System) error {
	var err error
	switch system.Server {
	case peer.Postgres:
		err = s.Postgres.wipe(ctx)
	case peer.Redis:
		err = s.Redis.wipe(ctx)
	}
	if err != nil {
		return fmt.Errorf("empty the server: %w", err)
	}
	return nil
}

// Read reads the meters of a system's server.
func (s *Servers) Read(ctx context.Context, system peer.System) (Reading, error) {
	switch system.Server {
	case peer.Postgres:
		return s.Postgres.read(ctx)
	case peer.Redis:
		return s.Redis.read(), nil
	}
	return Reading{}, nil
}

// ReadLate reads the meters when all sessions but the run's own are over and
// the server has counted what they did.
func (s *Servers) ReadLate(ctx context.Context, system peer.System) (Reading, error) {
	if system.Server == peer.Postgres {
		if err := s.Postgres.awaitQuiet(ctx); err != nil {
			return Reading{}, err
		}
	}
	return s.Read(ctx, system)
}

// Describe says in a line each what the servers are.
func (s *Servers) Describe() []string {
	lines := []string{s.Postgres.Description}
	if s.Redis != nil {
		lines = append(lines, s.Redis.Description)
	}
	return lines
}

// Close ends the servers that Start started.
func (s *Servers) Close() error {
	var errs []error
	if s.Redis != nil {
		errs = append(errs, s.Redis.close())
	}
	if s.Postgres != nil {
		errs = append(errs, s.Postgres.close())
	}
	return errors.Join(errs...)
}
