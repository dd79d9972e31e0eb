package redistest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamedServer: each node of a server is the program that ERRAND_REDIS_SERVER names.
func TestNamedServer(t *testing.T) {
	program, err := find()
	if errors.Is(err, ErrNoServer) && os.Getenv("CI") == "" {
		t.Skip("SKIPPED, and CI would fail: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other-server")
	if err := os.Symlink(program, other); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ERRAND_REDIS_SERVER", other)
	s, err := launch(t.Context(), 2, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	infos, err := s.Info(t.Context(), "server")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if !strings.Contains(info, "executable:"+other+"\r\n") {
			t.Errorf("got %s, want the executable %s", info, other)
		}
	}
	if len(infos) != 2 {
		t.Errorf("got %d nodes, want 2", len(infos))
	}
}

// TestNamedServerIsMissing: that is an error, where a machine without a server would skip a test.
func TestNamedServerIsMissing(t *testing.T) {
	t.Setenv("ERRAND_REDIS_SERVER", filepath.Join(t.TempDir(), "valkey-server"))
	_, err := Start(t.Context(), Options{})
	if err == nil || errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), "ERRAND_REDIS_SERVER: ") {
		t.Errorf("got %v, want that the program is missing", err)
	}
}
