package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

// traces says what is left of the server of that description, and of the process
// where pid is not 0.
func traces(t *testing.T, description string, pid int) string {
	t.Helper()
	if _, dir, local := strings.Cut(description, "data in "); local {
		if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
			return "directory " + dir
		}
		if pid != 0 && alive(pid) {
			return fmt.Sprint("process ", pid)
		}
		return ""
	}
	if _, container, ok := strings.Cut(description, "container "); ok {
		id, _, _ := strings.Cut(container, ",")
		pool, err := dockertest.NewPool("")
		if err != nil {
			t.Fatal(err)
		}
		var gone *docker.NoSuchContainer
		if _, err := pool.Client.InspectContainer(id); !errors.As(err, &gone) {
			return "container " + id
		}
		return ""
	}
	return description
}

// alive reports whether there is a process of that id.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// eventually polls until ok, for half a minute.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30s for %s", what)
		}
	}
}
