package server

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/lab/bench/internal/peer"
)

func TestMissing(t *testing.T) {
	s := &Servers{RedisErr: errors.New("no redis"), Node: map[*peer.NodeProgram]Node{
		peer.Named("graphile-best").Node: {Err: errors.New("no node")},
	}}
	for name, want := range map[string]string{
		"errand": "", "river-best": "", "ideal": "", "asynq": "no redis", "errand-redis-cluster": "no redis", "graphile-best": "no node", "bullmq": "no redis",
		"errand-sqlite": "", "river-sqlite": "",
	} {
		got := ""
		if err := s.Missing(peer.Named(name)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestRedisNamesWhatIsMissing(t *testing.T) {
	none := func() (*redistest.Server, error) { return nil, redistest.ErrNoServer }
	if _, err := newRedis(t.Context(), "", none); err == nil || err.Error() != "redis-server is not installed" {
		t.Errorf("got %v, want that redis-server is not installed", err)
	}
}

func TestConfigIsOfTheSystemsOwnServer(t *testing.T) {
	s := &Servers{
		Postgres: &Postgres{DSN: "dsn", OwnDSN: "own"}, Redis: &Redis{Addresses: []string{"address"}}, SQLite: &SQLite{DSN: "file"},
		Node: map[*peer.NodeProgram]Node{peer.Named("bullmq").Node: {Dir: "node"}},
	}
	s.Cluster = &Redis{Addresses: []string{"one", "two"}}
	for name, want := range map[string]struct {
		own, child, node string
		redis            []string
	}{
		"errand":        {own: "own", child: "dsn"},
		"asynq":         {redis: []string{"address"}},
		"asynq-cluster": {redis: []string{"one", "two"}},
		"bullmq":        {redis: []string{"address"}, node: "node"},
		"graphile-best": {own: "own", child: "dsn"},
		"river-sqlite":  {own: "file", child: "file"},
		"ideal":         {},
	} {
		system := peer.Named(name)
		c := peer.Config{System: name, DSN: want.own, Redis: want.redis, Node: want.node}
		if got := s.Config(system); got.DSN != c.DSN || !slices.Equal(got.Redis, c.Redis) || got.Node != c.Node {
			t.Errorf("%s: got %+v, want %+v", name, got, c)
		}
		if got := s.ChildConfig(system); got.DSN != want.child {
			t.Errorf("%s: a child's DSN: got %q, want %q", name, got.DSN, want.child)
		}
	}
}

func TestOnlyWhatIsNeededIsStarted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := Start(t.Context(), []peer.System{peer.Named("errand-sqlite")})
	if err != nil {
		t.Fatal(err)
	}
	if s.Postgres != nil || s.Redis != nil || len(s.Describe()) != 1 {
		t.Errorf("got %+v, want SQLite alone", s)
	}
	if text := s.SQLite.Description; !strings.Contains(text, s.SQLite.dir+", journal_mode wal, synchronous FULL") {
		t.Errorf("description: got %s", text)
	}
	before := s.SQLite.dir
	for range 2 { // the second time there is nothing to remove
		if err := s.Wipe(t.Context(), peer.Named("errand-sqlite")); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(before); err != nil || len(left) > 0 {
			t.Errorf("after a wipe: got %v, %v, want nothing", left, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(before); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: got %v, want no folder", err)
	}
}

func TestField(t *testing.T) {
	if got := field("# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n", "redis_version"); got != "7.0.15" {
		t.Errorf("got %q, want 7.0.15", got)
	}
	if got := field("", "redis_version"); got != "of unknown redis_version" {
		t.Errorf("of nothing: got %q", got)
	}
}

func TestDescribe(t *testing.T) {
	for info, want := range map[string]string{
		"redis_version:7.0.15\r\n": "Redis Cluster 7.0.15, nothing written to disk",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n": "Valkey Cluster 8.0.1, nothing written to disk",
	} {
		if got := describe(info, " Cluster"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
