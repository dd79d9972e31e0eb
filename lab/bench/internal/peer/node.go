package peer

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// graphileVersion is the newest that runs on every Node in use: 0.18 needs Node 22.18.
	graphileVersion = "0.17.3"
	graphileScript  = "graphile.js"
)

//go:embed graphile.js
var graphileSource []byte

// PrepareNode returns a folder in the user's cache with graphile-worker and the script that runs
// it. The first time it installs them with npm, which takes some seconds. The error says what is
// missing.
func PrepareNode(ctx context.Context) (dir string, err error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("%s is not installed", program)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "errand-bench", "graphile-worker-"+graphileVersion)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, graphileScript), graphileSource, 0o644); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "graphile-worker", "package.json")); !errors.Is(err, os.ErrNotExist) {
		return dir, err
	}
	install := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "graphile-worker@"+graphileVersion)
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install graphile-worker@%s: %w: %s", graphileVersion, err, lastLine(out))
	}
	return dir, nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
