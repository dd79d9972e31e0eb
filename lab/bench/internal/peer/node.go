package peer

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// NodeProgram is a program for Node that does parts of a measurement, for a system that has no Go
// library.
type NodeProgram struct {
	script   string   // its file, in this folder
	packages []string // what it needs from npm, name@version; the first is the system itself
	parts    []string // those that it does, of what package child does
}

var (
	// graphileWorker is of the newest version that runs on every Node in use: 0.18 needs Node 22.18.
	graphileWorker = &NodeProgram{script: "graphile.js", packages: []string{"graphile-worker@0.17.3"}, parts: []string{"work"}}
	// bullMQ has the ioredis that its authors test it with. ioredis 6 needs Node 20.
	bullMQ = &NodeProgram{
		script: "bullmq.js", packages: []string{"bullmq@6.7.0", "ioredis@5.11.1"},
		parts: []string{"work", "enqueue", "singles", "latency", "takes"},
	}
)

//go:embed *.js
var nodeSources embed.FS

// String returns the name of the system's package, with its version.
func (n *NodeProgram) String() string { return n.packages[0] }

// Prepare returns a folder in the user's cache with the program and its packages. The first time it
// installs them with npm, which takes some seconds. The error says what is missing.
func (n *NodeProgram) Prepare(ctx context.Context) (dir string, err error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("%s is not installed", program)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "errand-bench", n.folder())
	if err := n.write(dir); err != nil {
		return "", err
	}
	for _, p := range n.packages {
		name, _, _ := strings.Cut(p, "@")
		if _, err := os.Stat(filepath.Join(dir, "node_modules", name, "package.json")); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return dir, n.install(ctx, dir)
	}
	return dir, nil
}

// folder returns the name of its folder. It has all versions, so another one is installed anew.
func (n *NodeProgram) folder() string {
	return strings.ReplaceAll(strings.Join(n.packages, "-"), "@", "-")
}

// write writes the program, and what all such programs share.
func (n *NodeProgram) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{n.script, "child.js"} {
		source, err := nodeSources.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), source, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (n *NodeProgram) install(ctx context.Context, dir string) error {
	args := append([]string{"install", "--prefix", dir, "--no-audit", "--no-fund"}, n.packages...)
	if out, err := exec.CommandContext(ctx, "npm", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("npm install %s: %w: %s", n, err, lastLine(out))
	}
	return nil
}

// command returns the command that runs the program in the folder of [NodeProgram.Prepare].
func (n *NodeProgram) command(dir string) []string {
	return []string{"node", filepath.Join(dir, n.script)}
}

// run runs a part to its end. spec is its one argument, in JSON.
func (n *NodeProgram) run(ctx context.Context, dir, spec string) error {
	program := append(n.command(dir), spec)
	if out, err := exec.CommandContext(ctx, program[0], program[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Program returns the command of the program that does the part, or nil if this program does it.
func (c Config) Program(part string) []string {
	if n := Named(c.System).Node; n != nil && slices.Contains(n.parts, part) {
		return n.command(c.Node)
	}
	return nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
