package redis_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
)

// moveLeases moves the running jobs of queue q in time, by microseconds: KEYS[1] is the set of its
// leases, ARGV[1] what the keys of jobs begin with. With ARGV[3] it moves only that job.
const moveLeases = `
for _, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if not ARGV[3] or ARGV[3] == m then
    local key = ARGV[1] .. m
    local r = cmsgpack.unpack(redis.call('HGET', key, 's'))
    r.locked, r.lease = r.locked + ARGV[2], r.lease + ARGV[2]
    redis.call('HSET', key, 's', cmsgpack.pack(r))
    redis.call('ZADD', KEYS[1], r.lease, m)
  end
end`

// TestServerClockGoesForward: a jump of a server's clock beyond the lease takes no job from a
// worker that lives. The jobs of a dead worker are reclaimed when their lease would have ended
// without the jump. The clock jumps in that the past moves back.
func TestServerClockGoesForward(t *testing.T) {
	client := redistest.Open(t)
	b := open(t, client, redis.Options{Partitions: 1})
	k := keysOf(client, b)
	move := func(by string, only ...string) {
		t.Helper()
		cmd := client.B().Eval().Script(moveLeases).Numkeys(1).Key(k.base + "lease:q").Arg(append([]string{k.base + "j:", by}, only...)...).Build()
		if err := client.Do(t.Context(), cmd).Error(); err != nil && !rueidis.IsRedisNil(err) {
			t.Fatal(err)
		}
	}
	reclaim := func(when string, want ...int64) {
		t.Helper()
		got, err := b.Reclaim(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		var ids []int64
		for _, j := range got {
			ids = append(ids, j.ID)
		}
		slices.Sort(ids)
		if !slices.Equal(ids, want) {
			t.Errorf("reclaimed %s: got jobs %v, want %v", when, ids, want)
		}
	}
	if err := b.Enqueue(t.Context(), nil, newJobs(2)...); err != nil {
		t.Fatal(err)
	}
	held := wantClaim(t, b, 2)
	redis.SeeClock(b, time.Now().Add(-time.Hour).UnixMicro())
	move("-3600000000")
	reclaim("by the call that meets the jump")
	reclaim("after the jump")
	if lost, _, err := b.Extend(t.Context(), time.Minute, held[0]); err != nil || len(lost) != 0 {
		t.Fatalf("Extend after the jump: lost %d, error %v", len(lost), err)
	}
	move("-120000000", k.scoresFirst(t, "lease:q"))
	reclaim("when a dead worker's lease is over", held[1].ID)
	late := claimBriefly(t, b)
	time.Sleep(10 * time.Millisecond)
	reclaim("of what was claimed after the jump", late)
}

// scoresFirst returns the first member of a sorted set.
func (k keys) scoresFirst(t *testing.T, set string) string {
	t.Helper()
	m := k.do(t, "ZRANGE", k.base+set, "0", "0")
	all, err := m.AsStrSlice()
	if err != nil || len(all) != 1 {
		t.Fatalf("first of %s: got %v, %v", set, all, err)
	}
	return all[0]
}

// claimBriefly claims a job for a millisecond.
func claimBriefly(t *testing.T, b *redis.Backend) (id int64) {
	t.Helper()
	req := request(1)
	req.Lease = time.Millisecond
	got, err := b.Claim(t.Context(), req)
	if err != nil || len(got) != 1 {
		t.Fatalf("Claim: got %d jobs, %v; want one", len(got), err)
	}
	return got[0].ID
}

// TestSchedulesAfterClockGoesBack: an "@every" is not silent until the clock comes to its next tick
// again.
func TestSchedulesAfterClockGoesBack(t *testing.T) {
	client := redistest.Open(t)
	b := open(t, client, redis.Options{Partitions: 1})
	if err := b.SetSchedules(t.Context(), nil, queue.Schedule{Name: "a", Spec: "@every 5s", Job: newJobs(1)[0]}); err != nil {
		t.Fatal(err)
	}
	redis.SeeClock(b, time.Now().Add(time.Hour).UnixMicro())
	keysOf(client, b).rewind(t, -time.Hour)
	if _, next, err := b.FireSchedules(t.Context()); err != nil || next < 59*time.Minute {
		t.Fatalf("before the jump is known: next tick in %v, %v; want in an hour", next, err)
	}
	if _, err := b.Reclaim(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if _, next, err := b.FireSchedules(t.Context()); err != nil || next <= 0 || next > 5*time.Second {
		t.Errorf("after the jump: next tick in %v, %v; want within 5 s", next, err)
	}
}
