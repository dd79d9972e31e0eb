package server

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis/redistest"
)

// Redis is a node, or a cluster, that the systems for Redis use in turns. It writes nothing to
// disk: that is its fastest setting, and promises less than Postgres.
type Redis struct {
	Addresses   []string
	Description string
	server      *redistest.Server
	client      rueidis.Client
}

// startRedis starts a node.
func startRedis(ctx context.Context) (*Redis, error) {
	return newRedis(ctx, "", func() (*redistest.Server, error) { return redistest.Start(ctx, redistest.Options{}) })
}

// startCluster starts a cluster of three masters, with a replica each.
func startCluster(ctx context.Context) (*Redis, error) {
	return newRedis(ctx, " Cluster, 3 masters and 3 replicas", func() (*redistest.Server, error) {
		return redistest.StartCluster(ctx, 3, 1, redistest.Options{})
	})
}

func newRedis(ctx context.Context, what string, start func() (*redistest.Server, error)) (*Redis, error) {
	s, err := start()
	if errors.Is(err, redistest.ErrNoServer) {
		return nil, errors.New("redis-server is not installed")
	}
	if err != nil {
		return nil, err
	}
	r := &Redis{Addresses: s.Addrs, server: s}
	if r.client, err = s.Client(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	info, err := s.Info(ctx, "server")
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.Description = describe(info[0], what)
	return r, nil
}

// describe returns a line about servers of which one has that INFO. Valkey says there that it is
// compatible with a version of Redis, too.
func describe(info, what string) string {
	name, version := "Redis", field(info, "redis_version")
	if field(info, "server_name") == "valkey" {
		name, version = "Valkey", field(info, "valkey_version")
	}
	return name + what + " " + version + ", nothing written to disk"
}

// field returns a field of the text that INFO returns.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "of unknown " + name
}

// wipe empties every master.
func (r *Redis) wipe(ctx context.Context) error {
	for _, master := range r.client.Nodes() {
		if err := master.Do(ctx, master.B().Flushall().Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}

// read adds up the processor time of all nodes.
func (r *Redis) read(ctx context.Context) (Reading, error) {
	texts, err := r.server.Info(ctx, "cpu")
	if err != nil {
		return Reading{}, err
	}
	used := 0.0
	for _, text := range texts {
		for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
			seconds, err := strconv.ParseFloat(field(text, name), 64)
			if err != nil {
				return Reading{}, err
			}
			used += seconds
		}
	}
	return Reading{CPU: time.Duration(used * float64(time.Second)), Timed: true}, nil
}

func (r *Redis) close() error {
	if r.client != nil {
		r.client.Close()
	}
	return r.server.Close()
}
