package ops_test

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
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// redisServers is servers of a test's own, and a queue in them.
type redisServers struct {
	*redistest.Server
	client rueidis.Client
	q      *redis.Backend
}

// healthyRedis are the settings with which Doctor finds nothing.
func healthyRedis() map[string]string {
	return map[string]string{"maxmemory": "200mb", "appendonly": "yes", "appendfsync": "everysec"}
}

func newRedis(t *testing.T, start func(context.Context) (*redistest.Server, error)) redisServers {
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
	return redisServers{s, client, q}
}

// freshNamespace is a queue on a server that tests share.
func freshNamespace(t *testing.T) *redis.Backend {
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

// findings returns the checks of Doctor that are neither ok nor skipped, by their IDs.
func findings(t *testing.T, q queue.Queue) map[string]ops.Check {
	t.Helper()
	report, err := ops.Doctor(t.Context(), q, ops.Options{})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]ops.Check)
	for _, c := range report.Checks {
		if c.Level != ops.OK && c.Level != ops.Skipped {
			found[c.ID] = c
		}
	}
	return found
}

func newRedisNode(t *testing.T) redisServers {
	return newRedis(t, func(ctx context.Context) (*redistest.Server, error) {
		return redistest.Start(ctx, redistest.Options{Settings: healthyRedis()})
	})
}

// onEach sends a command to all servers.
func (r redisServers) onEach(t *testing.T, words ...string) {
	t.Helper()
	for addr, node := range r.client.Nodes() {
		if err := node.Do(t.Context(), node.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatalf("%s: %v: %v", addr, words, err)
		}
	}
}

// info returns a field of INFO of the only server.
func (r redisServers) info(t *testing.T, name string) int {
	t.Helper()
	servers, err := r.q.Servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(servers[0].Info[name])
	if err != nil {
		t.Fatal(err)
	}
	return n
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

// TestHealthyRedis: Doctor finds nothing on a healthy server, nor beside jobs that run and wait.
func TestHealthyRedis(t *testing.T) {
	t.Parallel()
	r := newRedisNode(t)
	if found := findings(t, r.q); len(found) > 0 {
		t.Errorf("an empty queue: found %v", found)
	}
	for range 100 {
		enqueue(t, r.q, queue.Job{Queue: "q"})
	}
	claim(t, r.q, "q", time.Minute)
	enqueue(t, r.q, queue.Job{Queue: "q"})
	if found := findings(t, r.q); len(found) > 0 {
		t.Errorf("jobs that run and wait: found %v", found)
	}
}

// TestFaultsRedis: Doctor finds each fault of a server, and only that.
func TestFaultsRedis(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		id, name string
		level    ops.Level
		make     func(t *testing.T, r redisServers)
		says     string // is in the check's value or its advice
	}{
		{"memory", "no limit", ops.Warn, func(t *testing.T, r redisServers) { r.onEach(t, "CONFIG", "SET", "maxmemory", "0") }, "maxmemory is not set"},
		{"memory", "full", ops.Fail, func(t *testing.T, r redisServers) {
			r.onEach(t, "CONFIG", "SET", "maxmemory", strconv.Itoa(r.info(t, "used_memory")))
		}, "at maxmemory Enqueue is refused"},
		{"memory", "eviction", ops.Fail, func(t *testing.T, r redisServers) {
			r.onEach(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		}, "maxmemory-policy is allkeys-lru"},
		{"memory", "eviction without a limit", ops.Warn, func(t *testing.T, r redisServers) {
			r.onEach(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
			r.onEach(t, "CONFIG", "SET", "maxmemory", "0")
		}, "with a limit it may delete jobs, because maxmemory-policy is allkeys-lru"},
		{"durability", "nothing on disk", ops.Warn, func(t *testing.T, r redisServers) { r.onEach(t, "CONFIG", "SET", "appendonly", "no") }, "appendonly is no"},
		{"durability", "left to the host", ops.Warn, func(t *testing.T, r redisServers) { r.onEach(t, "CONFIG", "SET", "appendfsync", "no") }, "appendfsync is no"},
		{"functions", "flushed", ops.Warn, func(t *testing.T, r redisServers) { r.onEach(t, "FUNCTION", "FLUSH") }, "not loaded"},
		{"writable", "a replica", ops.Fail, func(t *testing.T, r redisServers) {
			host, port, _ := strings.Cut(newRedisNode(t).Addrs[0], ":")
			r.onEach(t, "REPLICAOF", host, port)
			await(t, "the replica", func() bool {
				servers, err := r.q.Servers(t.Context())
				return err == nil && servers[0].Info["master_link_status"] == "up"
			})
		}, "the URL of its master, 127.0.0.1:"},
		{"connections", "nearly all", ops.Fail, func(t *testing.T, r redisServers) {
			r.onEach(t, "CONFIG", "SET", "maxclients", strconv.Itoa(r.info(t, "connected_clients")))
		}, "connections are in use"},
		{"stale-leases", "nobody reclaims", ops.Warn, func(t *testing.T, r redisServers) {
			enqueue(t, r.q, queue.Job{Queue: "q"})
			claim(t, r.q, "q", time.Millisecond)
			await(t, "a stale lease", func() bool {
				l, err := r.q.Leftovers(t.Context())
				return err == nil && l.Leases == 1
			})
		}, "1 running job"},
		{"retention", "nobody prunes", ops.Warn, func(t *testing.T, r redisServers) {
			enqueue(t, r.q, queue.Job{Queue: "q"})
			settle(t, r.q, queue.Outcome{Job: claim(t, r.q, "q", time.Minute)[0]})
			began := strconv.FormatInt(time.Now().Add(-14*24*time.Hour).UnixMicro(), 10)
			for p := range 8 { // as if it had been completed then
				key := fmt.Sprintf("{errand:%d}:end:completed", p)
				seqs, err := r.client.Do(t.Context(), r.client.B().Zrange().Key(key).Min("0").Max("-1").Build()).AsStrSlice()
				if err != nil {
					t.Fatal(err)
				}
				for _, seq := range seqs {
					r.onEach(t, "ZADD", key, began, seq)
				}
			}
		}, "a completed job ended 336h"},
	} {
		t.Run(f.id+"/"+f.name, func(t *testing.T) {
			t.Parallel()
			r := newRedisNode(t)
			f.make(t, r)
			found := findings(t, r.q)
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

// TestSlowRedis: Doctor finds that a server takes long to answer, and one that does not answer.
func TestSlowRedis(t *testing.T) {
	t.Parallel()
	r := newRedisNode(t)
	if err := r.Freeze(t.Context(), r.Addrs[0]); err != nil {
		t.Fatal(err)
	}
	report, err := ops.Doctor(t.Context(), r.q, ops.Options{})
	if err != nil || len(report.Checks) != 1 || report.Checks[0].ID != "reach" || report.Checks[0].Level != ops.Fail ||
		!strings.Contains(report.Checks[0].Value, "does not answer in time") {
		t.Errorf("a frozen server: got %+v, error %v; want reach to fail alone", report.Checks, err)
	}
	if err := r.Thaw(r.Addrs[0]); err != nil {
		t.Fatal(err)
	}
	if found := findings(t, r.q); len(found) > 0 {
		t.Errorf("a server that answers again: found %v", found)
	}
}

// TestRedisCluster: Doctor finds what is wrong with a cluster: settings, a dead replica, and then
// slots that nobody serves.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	r := newRedis(t, func(ctx context.Context) (*redistest.Server, error) {
		return redistest.StartCluster(ctx, 3, 1, redistest.Options{Settings: healthyRedis()})
	})
	wantOnly := func(what, id string, level ops.Level, says string) {
		t.Helper()
		found := findings(t, r.q)
		if c := found[id]; len(found) != 1 || c.Level != level || !strings.Contains(c.Value, says) {
			t.Errorf("%s: found %+v, want only %s: %s with %q", what, found, id, level, says)
		}
	}
	wantOnly("a new cluster", "replicas", ops.Warn, ", and 2 more: min-replicas-to-write is 0")
	r.onEach(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	if found := findings(t, r.q); len(found) > 0 {
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
		found := findings(t, r.q)
		return found["replicas"].Level == ops.Warn && found["writable"].Level == ops.Fail &&
			strings.Contains(found["replicas"].Value, master.Addr) && strings.Contains(found["writable"].Value, master.Addr)
	})
	if err := r.Kill(master.Addr); err != nil {
		t.Fatal(err)
	}
	await(t, "the cluster to miss the master", func() bool {
		found := findings(t, r.q)
		return found["cluster"].Level == ops.Fail && strings.Contains(found["cluster"].Value, "slots are not served")
	})
}

// TestRedisRights: a user who may do what docs/redis.acl says is told which checks take more, and a
// user who may do nothing which right is missing.
func TestRedisRights(t *testing.T) {
	t.Parallel()
	r := newRedisNode(t)
	as := func(rights ...string) *redis.Backend {
		t.Helper()
		r.onEach(t, append([]string{"ACL", "SETUSER", "somebody", "reset", "on", ">secret"}, rights...)...)
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
	report, err := ops.Doctor(t.Context(), q, ops.Options{})
	if err != nil || report.Level() != ops.OK {
		t.Errorf("got %+v, error %v", report.Checks, err)
	}
	for id, says := range map[string]string{"durability": "+config|get", "functions": "+function|list"} {
		if i := slices.IndexFunc(report.Checks, func(c ops.Check) bool { return c.ID == id }); !strings.Contains(report.Checks[i].Value, says) {
			t.Errorf("%s: %+v, want one that names %s", id, report.Checks[i], says)
		}
	}
	r.onEach(t, "ACL", "SETUSER", "somebody", "-fcall")
	if _, err := q.Servers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k"}); !isSetup(err) || !strings.Contains(err.Error(), "'fcall'") {
		t.Errorf("Enqueue without the right to FCALL: got error %v, want a SetupError that names it", err)
	}
	report, err = ops.Doctor(t.Context(), q, ops.Options{})
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

// TestLimitsRedis: Explain knows on Redis which limit or rate holds a job, and that a handler has
// asked for a pause.
func TestLimitsRedis(t *testing.T) {
	t.Parallel()
	hourly := queue.Rate{Jobs: 1, Per: time.Hour}
	done := func(t *testing.T, q *redis.Backend, claimed *queue.Job) { settle(t, q, queue.Outcome{Job: claimed}) }
	for _, c := range []struct {
		reason, remedy string
		rules          []queue.Rule
		first          func(t *testing.T, q *redis.Backend, claimed *queue.Job) // what becomes of the job before it
	}{
		{"queue-limit", "--running 2", []queue.Rule{{Running: 1}}, nil},
		{"group-limit", "--per-group 2", []queue.Rule{{PerGroup: 1}}, nil},
		{"queue-rate", "--rate 2/1h", []queue.Rule{{Rate: hourly}}, done},
		{"group-rate", "--group-rate 2/1h", []queue.Rule{{GroupRate: hourly}}, done},
		{"group-rate", "--group g --group-rate 2/1h", []queue.Rule{{GroupRate: queue.Rate{Jobs: 9}}, {Group: "g", GroupRate: hourly}}, done},
		{"throttled", "", []queue.Rule{{Rate: queue.Rate{Jobs: 9}}}, func(t *testing.T, q *redis.Backend, claimed *queue.Job) {
			settle(t, q, queue.Outcome{Job: claimed, Action: queue.Release, Delay: time.Hour, Throttle: true})
		}},
	} {
		t.Run(c.reason+" "+c.remedy, func(t *testing.T) {
			t.Parallel()
			q := freshNamespace(t)
			report(t, q, idle)
			for i := range c.rules {
				c.rules[i].Queue = "q"
			}
			setRules(t, q, c.rules...)
			job := queue.Job{Queue: "q", Group: "g"}
			enqueue(t, q, job)
			claimed := claim(t, q, "q", time.Minute)
			if c.first != nil {
				c.first(t, q, claimed[0])
			}
			id := enqueue(t, q, job)
			answer, err := ops.Explain(t.Context(), q, ops.Question{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			if r := answer.Reasons[0]; r.ID != c.reason || !strings.Contains(r.Remedy, c.remedy) || len(answer.Unknown) > 0 {
				t.Errorf("got %+v, unknown %v; want %s with %q", answer.Reasons, answer.Unknown, c.reason, c.remedy)
			}
		})
	}
}
