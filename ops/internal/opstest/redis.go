package opstest

import (
	"context"
	"strconv"
	"testing"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue/driver"
)

// RedisServers is servers of a test's own, and a queue in them.
type RedisServers struct {
	*redistest.Server
	Client rueidis.Client
	Q      *redis.Backend
}

// HealthyRedis are the settings with which doctor finds nothing.
func HealthyRedis() map[string]string {
	return map[string]string{"maxmemory": "200mb", "appendonly": "yes", "appendfsync": "everysec"}
}

// NewRedis starts servers of Redis for a test, and makes a queue in them.
func NewRedis(t *testing.T, start func(context.Context) (*redistest.Server, error)) RedisServers {
	t.Helper()
	redistest.Open(t) // skips the test if there is no redis-server
	s, err := start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	q, err := redis.New(t.Context(), client, redis.Options{Partitions: 8})
	if err != nil {
		t.Fatal(err)
	}
	return RedisServers{s, client, q}
}

// FreshNamespace is a queue on a server that tests share.
func FreshNamespace(t *testing.T) *redis.Backend {
	t.Helper()
	q, err := redis.New(t.Context(), redistest.Open(t), redis.Options{Namespace: redistest.Namespace()})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// audited is a queue in Redis with an audit log, which Redis does not have.
type audited struct {
	*redis.Backend
	driver.Auditor
}

// NewRedisNode does the same with one healthy node.
func NewRedisNode(t *testing.T) RedisServers {
	return NewRedis(t, func(ctx context.Context) (*redistest.Server, error) {
		return redistest.Start(ctx, redistest.Options{Settings: HealthyRedis()})
	})
}

// OnEach sends a command to all servers.
func (r RedisServers) OnEach(t *testing.T, words ...string) {
	t.Helper()
	for addr, node := range r.Client.Nodes() {
		if err := node.Do(t.Context(), node.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatalf("%s: %v: %v", addr, words, err)
		}
	}
}

// Info returns a field of INFO of the only server.
func (r RedisServers) Info(t *testing.T, name string) int {
	t.Helper()
	servers, err := r.Q.Servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(servers[0].Info[name])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
