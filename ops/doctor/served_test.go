package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// findings returns the checks of doctor that are neither ok nor skipped, by their IDs.
func findings(t *testing.T, q queue.Queue) map[string]doctor.Check {
	t.Helper()
	report, err := doctor.Examine(t.Context(), q, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]doctor.Check)
	for _, c := range report.Checks {
		if c.Level != ops.OK && c.Level != ops.Skipped {
			found[c.ID] = c
		}
	}
	return found
}

// await waits until done returns true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestHealthyRedis: doctor finds nothing on a healthy server, nor beside jobs that run and wait.
func TestHealthyRedis(t *testing.T) {
	t.Parallel()
	r := opstest.NewRedisNode(t)
	if found := findings(t, r.Q); len(found) > 0 {
		t.Errorf("an empty queue: found %v", found)
	}
	for range 100 {
		opstest.Enqueue(t, r.Q, queue.Job{Queue: "q"})
	}
	opstest.Claim(t, r.Q, "q", time.Minute)
	opstest.Enqueue(t, r.Q, queue.Job{Queue: "q"})
	if found := findings(t, r.Q); len(found) > 0 {
		t.Errorf("jobs that run and wait: found %v", found)
	}
}

// TestFaultsRedis: doctor finds each fault of a server, and only that.
func TestFaultsRedis(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		id, name string
		level    ops.Level
		make     func(t *testing.T, r opstest.RedisServers)
		says     string // is in the check's value or its advice
	}{
		{"memory", "no limit", ops.Warn, func(t *testing.T, r opstest.RedisServers) { r.OnEach(t, "CONFIG", "SET", "maxmemory", "0") }, "maxmemory is not set"},
		{"memory", "full", ops.Fail, func(t *testing.T, r opstest.RedisServers) {
			r.OnEach(t, "CONFIG", "SET", "maxmemory", strconv.Itoa(r.Info(t, "used_memory")))
		}, "at maxmemory Enqueue is refused"},
		{"memory", "eviction", ops.Fail, func(t *testing.T, r opstest.RedisServers) {
			r.OnEach(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		}, "maxmemory-policy is allkeys-lru"},
		{"memory", "eviction without a limit", ops.Warn, func(t *testing.T, r opstest.RedisServers) {
			r.OnEach(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
			r.OnEach(t, "CONFIG", "SET", "maxmemory", "0")
		}, "with a limit it may delete jobs, because maxmemory-policy is allkeys-lru"},
		{"durability", "nothing on disk", ops.Warn, func(t *testing.T, r opstest.RedisServers) { r.OnEach(t, "CONFIG", "SET", "appendonly", "no") }, "appendonly is no"},
		{"durability", "left to the host", ops.Warn, func(t *testing.T, r opstest.RedisServers) { r.OnEach(t, "CONFIG", "SET", "appendfsync", "no") }, "appendfsync is no"},
		{"functions", "flushed", ops.Warn, func(t *testing.T, r opstest.RedisServers) { r.OnEach(t, "FUNCTION", "FLUSH") }, "not loaded"},
		{"writable", "a replica", ops.Fail, func(t *testing.T, r opstest.RedisServers) {
			host, port, _ := strings.Cut(opstest.NewRedisNode(t).Addrs[0], ":")
			r.OnEach(t, "REPLICAOF", host, port)
			await(t, "the replica", func() bool {
				servers, err := r.Q.Servers(t.Context())
				return err == nil && servers[0].Info["master_link_status"] == "up"
			})
		}, "the URL of its master, 127.0.0.1:"},
		{"connections", "nearly all", ops.Fail, func(t *testing.T, r opstest.RedisServers) {
			r.OnEach(t, "CONFIG", "SET", "maxclients", strconv.Itoa(r.Info(t, "connected_clients")))
		}, "connections are in use"},
		{"stale-leases", "nobody reclaims", ops.Warn, func(t *testing.T, r opstest.RedisServers) {
			opstest.Enqueue(t, r.Q, queue.Job{Queue: "q"})
			opstest.Claim(t, r.Q, "q", time.Millisecond)
			await(t, "a stale lease", func() bool {
				l, err := r.Q.Leftovers(t.Context())
				return err == nil && l.Leases == 1
			})
		}, "1 running job"},
		{"retention", "nobody prunes", ops.Warn, func(t *testing.T, r opstest.RedisServers) {
			opstest.Enqueue(t, r.Q, queue.Job{Queue: "q"})
			opstest.Settle(t, r.Q, queue.Outcome{Job: opstest.Claim(t, r.Q, "q", time.Minute)[0]})
			began := strconv.FormatInt(time.Now().Add(-14*24*time.Hour).UnixMicro(), 10)
			for p := range 8 { // as if it had been completed then
				key := fmt.Sprintf("{errand:%d}:end:completed", p)
				seqs, err := r.Client.Do(t.Context(), r.Client.B().Zrange().Key(key).Min("0").Max("-1").Build()).AsStrSlice()
				if err != nil {
					t.Fatal(err)
				}
				for _, seq := range seqs {
					r.OnEach(t, "ZADD", key, began, seq)
				}
			}
		}, "a completed job ended 336h"},
	} {
		t.Run(f.id+"/"+f.name, func(t *testing.T) {
			t.Parallel()
			r := opstest.NewRedisNode(t)
			f.make(t, r)
			found := findings(t, r.Q)
			c, ok := found[f.id]
			if !ok || len(found) > 1 {
				t.Fatalf("found %v, want only %s", found, f.id)
			}
			if c.Level != f.level || !strings.Contains(c.Value+" "+c.Advice, f.says) || c.Advice == "" {
				t.Errorf("%s: %s → %s, want %s with %q", c.Level, c.Value, c.Advice, f.level, f.says)
			}
		})
	}
}

// TestSlowRedis: doctor finds that a server takes long to answer, and one that does not answer.
func TestSlowRedis(t *testing.T) {
	t.Parallel()
	r := opstest.NewRedisNode(t)
	if err := r.Freeze(t.Context(), r.Addrs[0]); err != nil {
		t.Fatal(err)
	}
	report, err := doctor.Examine(t.Context(), r.Q, doctor.Options{})
	if err != nil || len(report.Checks) != 1 || report.Checks[0].ID != "reach" || report.Checks[0].Level != ops.Fail ||
		!strings.Contains(report.Checks[0].Value, "does not answer in time") {
		t.Errorf("a frozen server: got %+v, error %v; want reach to fail alone", report.Checks, err)
	}
	if err := r.Thaw(r.Addrs[0]); err != nil {
		t.Fatal(err)
	}
	if found := findings(t, r.Q); len(found) > 0 {
		t.Errorf("a server that answers again: found %v", found)
	}
}

// TestRedisCluster: doctor finds what is wrong with a cluster: settings, a dead replica, and then
// slots that nobody serves.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	r := opstest.NewRedis(t, func(ctx context.Context) (*redistest.Server, error) {
		return redistest.StartCluster(ctx, 3, 1, redistest.Options{Settings: opstest.HealthyRedis()})
	})
	wantOnly := func(what, id string, level ops.Level, says string) {
		t.Helper()
		found := findings(t, r.Q)
		if c := found[id]; len(found) != 1 || c.Level != level || !strings.Contains(c.Value, says) {
			t.Errorf("%s: found %+v, want only %s: %s with %q", what, found, id, level, says)
		}
	}
	wantOnly("a new cluster", "replicas", ops.Warn, ", and 2 more: min-replicas-to-write is 0")
	r.OnEach(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	if found := findings(t, r.Q); len(found) > 0 {
		t.Errorf("a healthy cluster: found %v", found)
	}
	nodes, err := r.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	master := redistest.Masters(nodes)[0]
	replica, _ := redistest.ReplicaOf(nodes, master)
	if err := r.Kill(replica.Addr); err != nil {
		t.Fatal(err)
	}
	await(t, "the master to miss its replica", func() bool {
		found := findings(t, r.Q)
		return found["replicas"].Level == ops.Warn && found["writable"].Level == ops.Fail &&
			strings.Contains(found["replicas"].Value, master.Addr) && strings.Contains(found["writable"].Value, master.Addr)
	})
	if err := r.Kill(master.Addr); err != nil {
		t.Fatal(err)
	}
	await(t, "the cluster to miss the master", func() bool {
		found := findings(t, r.Q)
		return found["cluster"].Level == ops.Fail && strings.Contains(found["cluster"].Value, "slots are not served")
	})
}

// TestRedisRights: a user who may do what docs/redis.acl says is told which checks take more, and a
// user who may do nothing which right is missing.
func TestRedisRights(t *testing.T) {
	t.Parallel()
	r := opstest.NewRedisNode(t)
	as := func(rights ...string) *redis.Backend {
		t.Helper()
		r.OnEach(t, append([]string{"ACL", "SETUSER", "somebody", "reset", "on", ">secret"}, rights...)...)
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: r.Addrs, DisableCache: true, ForceSingleClient: true, Username: "somebody", Password: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		q, err := redis.New(t.Context(), client, redis.Options{Partitions: 8})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	q := as("~*", "&*", "+@all", "-config", "-function|list")
	report, err := doctor.Examine(t.Context(), q, doctor.Options{})
	if err != nil || report.Level() != ops.OK {
		t.Errorf("got %+v, error %v", report.Checks, err)
	}
	for id, says := range map[string]string{"durability": "+config|get", "functions": "+function|list"} {
		if i := slices.IndexFunc(report.Checks, func(c doctor.Check) bool { return c.ID == id }); !strings.Contains(report.Checks[i].Value, says) {
			t.Errorf("%s: %+v, want one that names %s", id, report.Checks[i], says)
		}
	}
	r.OnEach(t, "ACL", "SETUSER", "somebody", "-fcall")
	if _, err := q.Servers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k"}); !isSetup(err) || !strings.Contains(err.Error(), "'fcall'") {
		t.Errorf("Enqueue without the right to FCALL: got error %v, want a SetupError that names it", err)
	}
	report, err = doctor.Examine(t.Context(), q, doctor.Options{})
	skipped := map[string]string{}
	for _, c := range report.Checks {
		if c.Level == ops.Skipped {
			skipped[c.ID] = c.Value
		}
	}
	if err != nil || !strings.Contains(skipped["backlog"], "a right is missing") || !strings.Contains(skipped["retention"], "a right is missing") {
		t.Errorf("Doctor without the right to FCALL: skipped %v, error %v", slices.Sorted(maps.Keys(skipped)), err)
	}
}

func isSetup(err error) bool {
	_, ok := errors.AsType[*queue.SetupError](err)
	return ok
}
