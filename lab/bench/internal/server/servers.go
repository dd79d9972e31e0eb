// Package server finds or starts the servers and files that the systems keep their jobs in.
package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/errandhq/errand/lab/bench/internal/peer"
)

// Servers are all servers of a run. A server is nil if no system needs it, or if it is not
// available: then its error says why.
type Servers struct {
	Postgres *Postgres
	Redis    *Redis // a node
	Cluster  *Redis
	RedisErr error // of either
	Node     map[*peer.NodeProgram]Node
	SQLite   *SQLite
}

// Node is a program for Node that is ready to run.
type Node struct {
	Dir string // its folder
	Err error  // why there is none
}

// Start starts the servers that the systems need.
func Start(ctx context.Context, systems []peer.System) (*Servers, error) {
	need := func(f func(peer.System) bool) bool { return slices.ContainsFunc(systems, f) }
	s := &Servers{}
	var err error
	if need(func(p peer.System) bool { return p.Server == peer.Redis }) {
		s.Redis, s.RedisErr = startRedis(ctx)
	}
	if need(func(p peer.System) bool { return p.Server == peer.RedisCluster }) && s.RedisErr == nil {
		s.Cluster, s.RedisErr = startCluster(ctx)
	}
	s.Node = prepareNode(ctx, systems)
	if need(func(p peer.System) bool { return p.Server == peer.SQLite }) {
		if s.SQLite, err = startSQLite(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if need(func(p peer.System) bool { return p.Server == peer.Postgres }) {
		if s.Postgres, err = startPostgres(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// prepareNode prepares the programs for Node that the systems need.
func prepareNode(ctx context.Context, systems []peer.System) map[*peer.NodeProgram]Node {
	programs := make(map[*peer.NodeProgram]Node)
	for _, system := range systems {
		if _, ok := programs[system.Node]; ok || system.Node == nil {
			continue
		}
		dir, err := system.Node.Prepare(ctx)
		programs[system.Node] = Node{dir, err}
	}
	return programs
}

// Missing returns why a system cannot be measured, or nil.
func (s *Servers) Missing(system peer.System) error {
	switch {
	case (system.Server == peer.Redis || system.Server == peer.RedisCluster) && s.RedisErr != nil:
		return s.RedisErr
	}
	return s.Node[system.Node].Err
}

// Config returns how this process reaches a system.
func (s *Servers) Config(system peer.System) peer.Config {
	c := s.ChildConfig(system)
	if system.Server == peer.Postgres {
		c.DSN = s.Postgres.OwnDSN
	}
	return c
}

// ChildConfig returns how the measured processes reach a system.
func (s *Servers) ChildConfig(system peer.System) peer.Config {
	c := peer.Config{System: system.Name, Node: s.Node[system.Node].Dir}
	switch system.Server {
	case peer.Postgres:
		c.DSN = s.Postgres.DSN
	case peer.Redis:
		c.Redis = s.Redis.Addresses
	case peer.RedisCluster:
		c.Redis = s.Cluster.Addresses
	case peer.SQLite:
		c.DSN = s.SQLite.DSN
	}
	return c
}

// Wipe empties the server of a system. It returns when the server has written to disk what was
// there before.
func (s *Servers) Wipe(ctx context.Context, system peer.System) error {
	var err error
	switch system.Server {
	case peer.Postgres:
		err = s.Postgres.wipe(ctx)
	case peer.Redis:
		err = s.Redis.wipe(ctx)
	case peer.RedisCluster:
		err = s.Cluster.wipe(ctx)
	case peer.SQLite:
		err = s.SQLite.wipe()
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
		return s.Redis.read(ctx)
	case peer.RedisCluster:
		return s.Cluster.read(ctx)
	}
	return Reading{}, nil
}

// ReadLate reads the meters when all sessions except the run's own have ended, and the server has
// counted what they did.
func (s *Servers) ReadLate(ctx context.Context, system peer.System) (Reading, error) {
	if system.Server == peer.Postgres {
		if err := s.Postgres.awaitQuiet(ctx); err != nil {
			return Reading{}, err
		}
	}
	return s.Read(ctx, system)
}

// Describe returns a line about each server.
func (s *Servers) Describe() []string {
	var lines []string
	if s.Postgres != nil {
		lines = append(lines, s.Postgres.Description)
	}
	if s.Redis != nil {
		lines = append(lines, s.Redis.Description)
	}
	if s.Cluster != nil {
		lines = append(lines, s.Cluster.Description)
	}
	if s.SQLite != nil {
		lines = append(lines, s.SQLite.Description)
	}
	return lines
}

// Close ends the servers that Start started.
func (s *Servers) Close() error {
	var errs []error
	if s.Redis != nil {
		errs = append(errs, s.Redis.close())
	}
	if s.Cluster != nil {
		errs = append(errs, s.Cluster.close())
	}
	if s.SQLite != nil {
		errs = append(errs, s.SQLite.close())
	}
	if s.Postgres != nil {
		errs = append(errs, s.Postgres.close())
	}
	return errors.Join(errs...)
}
