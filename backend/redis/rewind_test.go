package redis_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
)

// keys are the keys of a namespace in partition 0.
type keys struct {
	client rueidis.Client
	b      *redis.Backend
	base   string
}

func keysOf(client rueidis.Client, b *redis.Backend) keys {
	return keys{client, b, "{" + redis.NamespaceOf(b) + ":0}:"}
}

// do sends a command whose second word is a key.
func (k keys) do(t *testing.T, words ...string) rueidis.RedisMessage {
	t.Helper()
	m, err := k.client.Do(t.Context(), k.client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()).ToMessage()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return m
}

// scores returns the members of a sorted set with their scores.
func (k keys) scores(t *testing.T, set string) map[string]float64 {
	t.Helper()
	all, err := k.client.Do(t.Context(), k.client.B().Zrange().Key(k.base+set).Min("0").Max("-1").Withscores().Build()).AsZScores()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]float64, len(all))
	for _, z := range all {
		found[z.Member] = z.Score
	}
	return found
}

// sooner lowers the times in a sorted set.
func (k keys) sooner(t *testing.T, set string, by time.Duration) {
	t.Helper()
	for name, at := range k.scores(t, set) {
		k.do(t, "ZADD", k.base+set, fmt.Sprintf("%.0f", at-float64(by.Microseconds())), name)
	}
}

// rewind makes the last report of each worker older, the statistics by whole minutes, and the next
// tick of each schedule sooner. No tick was fired: the time until then did not pass.
func (k keys) rewind(t *testing.T, by time.Duration) {
	t.Helper()
	k.sooner(t, "seen", by)
	k.sooner(t, "ticks", by)
	k.rewindStats(t, by)
	redis.ForgetTick(k.b)
	for name := range k.scores(t, "ticks") {
		for _, tag := range redis.TagsOf(k.b, "q") {
			k.do(t, "DEL", tag+"fired:"+name)
		}
	}
}

func (k keys) rewindStats(t *testing.T, by time.Duration) {
	t.Helper()
	minutes := k.scores(t, "minutes")
	for _, was := range slices.SortedFunc(maps.Keys(minutes), func(a, b string) int { return cmp.Compare(minutes[a], minutes[b]) }) {
		is := fmt.Sprintf("%.0f", minutes[was]-by.Truncate(time.Minute).Minutes())
		m := k.do(t, "HGETALL", k.base+"stats:"+was)
		all, err := m.AsStrMap()
		if err != nil {
			t.Fatal(err)
		}
		k.do(t, "UNLINK", k.base+"stats:"+was)
		k.do(t, "ZREM", k.base+"minutes", was)
		k.do(t, "ZADD", k.base+"minutes", is, is)
		for id, numbers := range all {
			k.do(t, "HSET", k.base+"stats:"+is, id, numbers)
		}
	}
}
