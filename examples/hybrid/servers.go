package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/queue"
)

//go:embed schema.sql
var schema string

// servers are Postgres, the cluster, and the queue that is in both.
type servers struct {
	server   *postgrestest.Server
	postgres *dburl.Database
	cluster  *redistest.Server
	client   rueidis.Client
	jobs     *router.Queue
}

func startServers(ctx context.Context, out io.Writer) (s *servers, err error) {
	s = &servers{}
	for _, start := range []func(context.Context) error{s.startCluster, s.startPostgres, s.openQueue} {
		if err := start(ctx); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	fmt.Fprintf(out, "%s\nRedis Cluster of 3 masters and 3 replicas at %v\n", s.server.Description, s.cluster.Addrs)
	return s, nil
}

func (s *servers) startCluster(ctx context.Context) (err error) {
	if s.cluster, err = redistest.StartCluster(ctx, 3, 1, redistest.Options{}); err != nil {
		return err
	}
	s.client, err = s.cluster.Client()
	return err
}

func (s *servers) startPostgres(ctx context.Context) (err error) {
	if s.server, err = postgrestest.Start(ctx, postgrestest.Options{}); err != nil {
		return err
	}
	if s.postgres, err = dburl.Open(s.server.DSN, dburl.Options{}); err != nil {
		return err
	}
	if err := s.postgres.Migrate(ctx); err != nil {
		return err
	}
	_, err = s.postgres.DB.ExecContext(ctx, schema)
	return err
}

// openQueue makes one queue of both: clicks are in Redis, and all other queues in Postgres.
func (s *servers) openQueue(ctx context.Context) error {
	clicks, err := redis.New(ctx, s.client, redis.Options{
		Namespace: "shop", Partitions: 12,
		Spread:         12, // the queue is in all partitions, and so on all masters
		Durable:        1,  // acknowledge what a replica has as well: see the end of audit.go
		DurableTimeout: 500 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	s.jobs, err = router.New(router.Routes{Clicked.Queue: clicks, router.Other: s.postgres.Queue}, router.Options{Logger: quiet})
	return err
}

// quiet logs nothing: the failures of this day are on purpose.
var quiet = slog.New(slog.DiscardHandler)

// openJobs returns how many jobs of all queues wait or run. Where they cannot be counted it returns
// 1.
func (s *servers) openJobs(ctx context.Context) (n int64) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	counts, err := s.jobs.Counts(ctx)
	if err != nil {
		return 1
	}
	for _, c := range counts {
		if c.Status == queue.StatusPending || c.Status == queue.StatusRunning {
			n += c.Jobs
		}
	}
	return n
}

// close stops what was started.
func (s *servers) close() (err error) {
	if s.client != nil {
		s.client.Close()
	}
	if s.cluster != nil {
		err = s.cluster.Close()
	}
	if s.postgres != nil {
		err = errors.Join(err, s.postgres.Close())
	}
	if s.server != nil {
		err = errors.Join(err, s.server.Close())
	}
	return err
}
