package redis_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/redis"
)

// TestEqualFailures: all partitions fail with the same error, which is told once.
func TestEqualFailures(t *testing.T) {
	s, client := startWith(t, nil)
	b := open(t, client, redis.Options{Spread: 64})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, _ = b.Prune(t.Context()) // connections of before end with another error
	_, _, pruning := b.Prune(t.Context())
	_, reclaiming := b.Reclaim(t.Context(), 100)
	_, claiming := b.Claim(t.Context(), request(1))
	for name, err := range map[string]error{"Prune": pruning, "Reclaim": reclaiming, "Claim": claiming} {
		if err == nil || strings.Count(err.Error(), "\n") > 1 || !regexp.MustCompile(`\(6\d times\)`).MatchString(err.Error()) {
			t.Errorf("%s without a server: got error %v, want one error with their number", name, err)
		}
	}
}
