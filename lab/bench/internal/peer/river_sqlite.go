package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// riverSQLite is driven by the program of the folder riversqlite, which says why it is one of its own. Here is what does not
// belong to a measurement.
type riverSQLite struct {
	config Config
	looker looker
}

var errNotHere = errors.New("this program has no River for SQLite in it")

func openRiverSQLite(_ context.Context, c Config) (Peer, error) {
	return &riverSQLite{config: c, looker: lookAtSQLite(c.DSN)}, nil
}

// BuildRiver builds the program of River for SQLite in dir, and returns its path. The first time go downloads what that
// needs. The error says what is missing.
func BuildRiver(ctx context.Context, dir string) (program string, err error) {
	if _, err := exec.LookPath("go"); err != nil {
		return "", errors.New("go is not installed")
	}
	_, here, _, _ := runtime.Caller(0)
	program = filepath.Join(dir, "riversqlite")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(filepath.Dir(here), "..", "..", "riversqlite")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build in %s: %w: %s", build.Dir, err, lastLine(out))
	}
	return program, nil
}

// run runs a part that is over when the program ends.
func (r *riverSQLite) run(ctx context.Context, spec map[string]any) error {
	spec["dsn"] = r.config.DSN
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, r.config.River, string(text)).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (r *riverSQLite) Install(ctx context.Context) error {
	return r.run(ctx, map[string]any{"part": "install"})
}

func (r *riverSQLite) Enqueue(ctx context.Context, first, n int) error {
	return r.run(ctx, map[string]any{"part": "load", "first": first, "jobs": n})
}

// EnqueueOne is for its own program: see [System.Built].
func (r *riverSQLite) EnqueueOne(context.Context, int) error {
	return errNotHere
}

// Work is for its own program: see [System.Built].
func (r *riverSQLite) Work(context.Context, func(int)) error {
	return errNotHere
}

func (r *riverSQLite) Unsettled(ctx context.Context) (bool, error) {
	return r.looker.yes(ctx, riverQuestions.unsettled)
}

func (r *riverSQLite) Census(ctx context.Context) (Census, error) {
	return r.looker.census(ctx, riverQuestions.census)
}

func (r *riverSQLite) Close() error { return r.looker.close() }
