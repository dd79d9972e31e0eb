package router_test

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestForwardKilledToRedis: processes that forward to Redis are killed again and again. Each job
// arrives once.
func TestForwardKilledToRedis(t *testing.T) {
	extent.Long(t)
	if place := os.Getenv(forwardChild); place != "" {
		dsn, addr, _ := strings.Cut(place, " ")
		db, target := openKilled(t, dsn, addr)
		_ = routeToRedis(t, db, target).Upkeep(t.Context(), driver.UpkeepOptions{Logger: quiet}) // until it is killed
		return
	}
	const jobs, kills = 1000, 4
	redistest.Open(t) // skips the test if there is no redis-server
	server, err := redistest.Start(t.Context(), redistest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	dsn := postgrestest.DSN(t)
	db, target := openKilled(t, dsn, server.Addrs[0])
	q := routeToRedis(t, db, target)
	var all []*queue.Job
	for i := range jobs {
		all = append(all, job("clicks", i))
	}
	for i := range kills {
		inTx(t, db, q, all[i*jobs/kills:(i+1)*jobs/kills]...)
		killAfter(t, "TestForwardKilledToRedis", dsn+" "+server.Addrs[0], func() bool { return inRedis(t, target) > i*jobs/kills })
	}
	reclaimKilled(t, db, q, jobs)
	keepUp(t, q)
	await(t, "an empty outbox", func() bool { return outboxIsEmpty(t, q) })
	wantNumbers(t, pending(t, q, "clicks"), jobs)
	if n := inRedis(t, target); n != jobs {
		t.Errorf("jobs that have arrived: got %d, want %d", n, jobs)
	}
}

// openKilled opens the databases of a process that may be killed.
func openKilled(t *testing.T, dsn, addr string) (*sql.DB, *redis.Backend) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	target, err := redis.New(t.Context(), client, redis.Options{Partitions: 4, Spread: 4})
	if err != nil {
		t.Fatal(err)
	}
	return db, target
}

func routeToRedis(t *testing.T, db *sql.DB, target *redis.Backend) *router.Queue {
	t.Helper()
	return route(t, router.Routes{"*": newHome(t, db).q, "clicks": target}, router.Options{Logger: quiet})
}

// inRedis returns how many jobs Redis has.
func inRedis(t *testing.T, target *redis.Backend) (n int) {
	t.Helper()
	counts, err := target.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		n += int(c.Jobs)
	}
	return n
}
