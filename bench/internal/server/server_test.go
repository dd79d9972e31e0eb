package server

import (
	"errors"
	"testing"

	"github.com/errandhq/errand/bench/internal/peer"
)

func TestMissing(t *testing.T) {
	s := &Servers{RedisErr: errors.New("no redis"), NodeErr: errors.New("no node")}
	for name, want := range map[string]string{"errand": "", "river-best": "", "ideal": "", "asynq": "no redis", "graphile-best": "no node"} {
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
	t.Setenv("PATH", t.TempDir())
	if _, err := startRedis(t.Context()); err == nil || err.Error() != "redis-server is not installed" {
		t.Errorf("got %v, want that redis-server is not installed", err)
	}
}

func TestVersion(t *testing.T) {
	if got := version("# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n"); got != "7.0.15" {
		t.Errorf("got %q, want 7.0.15", got)
	}
	if got := version(""); got != "of unknown version" {
		t.Errorf("of nothing: got %q", got)
	}
}

func TestWithParameter(t *testing.T) {
	got, err := withParameter("postgres://u:p@h:1/db?sslmode=disable", "plan_cache_mode", "force_generic_plan")
	if want := "postgres://u:p@h:1/db?plan_cache_mode=force_generic_plan&sslmode=disable"; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if _, err := withParameter("postgres://h:port/db", "a", "b"); err == nil {
		t.Error("of a bad URL: got nil, want an error")
	}
}
