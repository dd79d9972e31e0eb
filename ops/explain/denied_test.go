package explain

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// TestDeniedByRedis: of a fact that Redis refuses to tell, Job names the file that has the
// rights.
func TestDeniedByRedis(t *testing.T) {
	t.Parallel()
	f := &inquiry{}
	ok, err := f.tryOrNote(t.Context(), "which workers live", fmt.Errorf("refused: %w", fs.ErrPermission))
	if ok || err != nil || len(f.unknown) != 1 || !strings.HasSuffix(f.unknown[0], "ask as a user that has the rights of docs/redis.acl") {
		t.Errorf("got %t, error %v, unknown %q", ok, err, f.unknown)
	}
}
