package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// TestRemedies: each command that doctor and explain advise exists, with these flags.
func TestRemedies(t *testing.T) {
	lines := remedies(t)
	if len(lines) < 10 {
		t.Errorf("doctor and explain advise only %d commands: %q", len(lines), lines)
	}
	for _, args := range lines {
		root := newRoot(&cli.App{Out: io.Discard, Err: io.Discard})
		cmd, rest, err := root.Find(args)
		if err != nil || cmd.HasSubCommands() {
			t.Errorf("errand %s: no command, %v", strings.Join(args, " "), err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("errand %s: %v", strings.Join(args, " "), err)
		}
		for _, check := range []func() error{
			func() error { return cmd.ValidateArgs(cmd.Flags().Args()) }, cmd.ValidateRequiredFlags, cmd.ValidateFlagGroups,
		} {
			if err := check(); err != nil {
				t.Errorf("errand %s: %v", strings.Join(args, " "), err)
			}
		}
	}
}

// remedies returns the arguments of each call of the method Command in the packages of ops, with 1
// for those that are not literal. Commands that other texts name are errors.
func remedies(t *testing.T) (lines [][]string) {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"../../ops/*/*.go", "../../ops/internal/reader/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Command" {
					lines = append(lines, literals(n.Args))
				}
			case *ast.BasicLit:
				for _, c := range newRoot(&cli.App{}).Commands() {
					if strings.Contains(n.Value, "errand "+c.Name()+" ") {
						t.Errorf("%s: %s names a command: use the method Command", path, n.Value)
					}
				}
			}
			return true
		})
	}
	return lines
}

func literals(args []ast.Expr) (words []string) {
	for _, arg := range args {
		word := "1"
		if l, ok := arg.(*ast.BasicLit); ok {
			word, _ = strconv.Unquote(l.Value)
		}
		words = append(words, word)
	}
	return words
}
