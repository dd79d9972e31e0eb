package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
)

// shared are the servers of this process. They end with it.
var shared struct {
	sync.Mutex
	servers map[string]*Server
}

// Open returns a client of the node that all tests of this process share. The test's end closes it.
func Open(t testing.TB) rueidis.Client {
	t.Helper()
	if url := os.Getenv("REDIS_URL"); url != "" {
		return open(t, func() (rueidis.Client, error) {
			o, err := rueidis.ParseURL(url)
			if err != nil {
				return nil, err
			}
			o.DisableCache, o.ForceSingleClient = true, true
			return rueidis.NewClient(o)
		})
	}
	s := sharedServer(t, "node", func(ctx context.Context) (*Server, error) { return Start(ctx, Options{}) })
	return open(t, s.Client)
}

// OpenCluster returns a client of the cluster of three masters, with a replica each, that all tests
// of this process share. The test's end closes it.
func OpenCluster(t testing.TB) rueidis.Client {
	t.Helper()
	s := sharedServer(t, "cluster", func(ctx context.Context) (*Server, error) { return StartCluster(ctx, 3, 1, Options{}) })
	return open(t, s.Client)
}

func open(t testing.TB, connect func() (rueidis.Client, error)) rueidis.Client {
	t.Helper()
	client, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// sharedServer returns the server of that name, and starts it if it is the first to need it.
func sharedServer(t testing.TB, name string, start func(context.Context) (*Server, error)) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if s := shared.servers[name]; s != nil {
		return s
	}
	s, err := start(context.Background())
	if errors.Is(err, ErrNoServer) && os.Getenv("CI") == "" {
		t.Skip("SKIPPED, and CI would fail: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if shared.servers == nil {
		shared.servers = make(map[string]*Server)
	}
	shared.servers[name] = s
	return s
}

// Namespace returns a namespace that no other test has.
func Namespace() string { return "test-" + strings.ToLower(rand.Text()) }
