// Package clock makes a program whose wall clock is wrong. libfaketime cannot do that, because a Go
// program does not read the clock through libc. A time namespace has no wall clock of its own. So
// the program is compiled with a changed package time, whose Now is off by as much as the
// environment says. All code of the program has that clock, drivers included. Timers and
// differences of times stay right, as on a machine whose clock was set wrong.
package clock

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// Variable is the name of the environment variable that says by how much the wall clock is off, in
// whole seconds, in the format of [time.ParseDuration].
const Variable = "CHAOS_CLOCK_SHIFT"

// Shift returns the environment entry for a clock that is off by d.
func Shift(d time.Duration) string { return Variable + "=" + d.String() }

//go:embed shift.go.txt
var shiftSource []byte

// Build compiles chaos with the changed clock into a folder, and returns the path of the program.
// It needs the go command, and a working directory inside lab's module.
func Build(ctx context.Context, dir string) (program string, err error) {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path == "" {
		return "", errors.New("clock: the program does not know its module")
	}
	overlay, err := writeOverlay(ctx, dir)
	if err != nil {
		return "", fmt.Errorf("clock: %w", err)
	}
	program = filepath.Join(dir, "shifted")
	if _, err := goCommand(ctx, "build", "-buildvcs=false", "-overlay", overlay, "-o", program, info.Main.Path+"/chaos"); err != nil {
		return "", fmt.Errorf("clock: %w", err)
	}
	return program, nil
}

// writeOverlay writes the files that the compiler reads instead of the toolchain's own.
func writeOverlay(ctx context.Context, dir string) (path string, err error) {
	root, err := goCommand(ctx, "env", "GOROOT")
	if err != nil {
		return "", err
	}
	original := filepath.Join(root, "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	patched, err := patch(source)
	if err != nil {
		return "", fmt.Errorf("%s: %w", original, err)
	}
	replacements := make(map[string]string)
	for name, text := range map[string][]byte{"time.go": patched, "zz_shift.go": shiftSource} {
		written := filepath.Join(dir, name)
		if err := os.WriteFile(written, text, 0o644); err != nil {
			return "", err
		}
		replacements[filepath.Join(root, "src", "time", name)] = written
	}
	text, err := json.Marshal(map[string]any{"Replace": replacements})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o644)
}

// patch makes the function Now call shiftedNow instead of runtimeNow. It fails unless exactly one
// call in Now asks for the time.
func patch(source []byte) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "time.go", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []*ast.Ident
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "Now" {
			found = append(found, clockCalls(f)...)
		}
	}
	if all := clockCalls(file); len(found) != 1 || len(all) != 1 {
		return nil, fmt.Errorf("%d calls of runtimeNow or now in Now, and %d in all, not one: this Go's package time is not known", len(found), len(all))
	}
	at := files.Position(found[0].Pos()).Offset
	end := at + len(found[0].Name)
	return []byte(string(source[:at]) + "shiftedNow" + string(source[end:])), nil
}

// clockCalls returns the calls that read the runtime's wall clock.
func clockCalls(within ast.Node) (calls []*ast.Ident) {
	ast.Inspect(within, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok && (name.Name == "runtimeNow" || name.Name == "now") {
				calls = append(calls, name)
			}
		}
		return true
	})
	return calls
}

// goCommand runs the go command and returns its output.
func goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var words strings.Builder
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, strings.TrimSpace(words.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
