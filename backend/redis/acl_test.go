package redis_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/redis"
)

// TestLeastPrivilege runs the suite, in brief and with the default options, as the user of
// docs/redis.acl, who may not do more.
func TestLeastPrivilege(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the suite once more")
	}
	text, err := os.ReadFile("../../docs/redis.acl")
	if err != nil {
		t.Fatal(err)
	}
	acl := filepath.Join(t.TempDir(), "users.acl")
	rules := strings.NewReplacer("{errand", "{test-*", "&errand:", "&test-*:", "default off", "default on nopass +@all ~* &*").Replace(string(text))
	if err := os.WriteFile(acl, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := startWith(t, map[string]string{"aclfile": acl})
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: s.Addrs, Username: "errand", Password: "CHANGE-ME", DisableCache: true, ForceSingleClient: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for _, forbidden := range [][]string{{"FLUSHALL"}, {"KEYS", "*"}, {"CONFIG", "GET", "*"}, {"GET", "other"}, {"ACL", "LIST"}, {"EVAL", "return 1", "0"}} {
		if err := client.Do(t.Context(), client.B().Arbitrary(forbidden...).Build()).Error(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%v: got error %v, want NOPERM", forbidden, err)
		}
	}
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		return harness(t, client, redis.Options{})
	})
}
