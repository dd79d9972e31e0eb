package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mostCalls is how long the chains of statements.md may be; longestChain is for all other chains.
var mostCalls = map[string]int{
	"Enqueue on a pool": 5, "settle to driver": 6, "Enqueue in a transaction": 4, "claim to driver, where claims are not rationed": 6, "reclaim to driver": 6,
}

const longestChain = 7

// TestCalls: each chain of calls that statements.md names exists in the code, is as long as the
// page says, and is short. A chain is of PostgreSQL unless it says that it is of SQLite.
func TestCalls(t *testing.T) {
	text, err := os.ReadFile("statements.md")
	if err != nil {
		t.Fatal(err)
	}
	postgres := functionsIn(t, "../queue", "../engine", "../internal/upkeep", "../backend/postgres", "../backend/internal/sqlkit")
	sqlite := functionsIn(t, "../backend/sqlite", "../backend/sqlite/internal/writelock")
	name := regexp.MustCompile("`([\\w.]+)`")
	chains := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if !strings.Contains(line, "` → `") || len(cells) != 5 {
			continue
		}
		chains++
		what := strings.TrimSpace(cells[1])
		var calls []string
		for _, m := range name.FindAllStringSubmatch(cells[2], -1) {
			calls = append(calls, m[1])
		}
		if n, err := strconv.Atoi(strings.TrimSpace(cells[3])); err != nil || n != len(calls) {
			t.Errorf("%s: the page says %q calls and names %d", what, cells[3], len(calls))
		}
		most := longestChain
		if limit, ok := mostCalls[what]; ok {
			most = limit
		}
		if len(calls) > most {
			t.Errorf("%s: %d calls, want at most %d", what, len(calls), most)
		}
		code := postgres
		if strings.Contains(what, "SQLite") {
			code = sqlite
		}
		checkChain(t, what, calls, code)
	}
	if chains < 5 {
		t.Errorf("found only %d chains of calls in statements.md", chains)
	}
}

// checkChain fails the test unless each function of the chain calls the next: it names it, or it
// calls a function that it was given, and a function earlier in the chain names the next.
func checkChain(t *testing.T, what string, calls []string, code map[string]*ast.FuncDecl) {
	t.Helper()
	for i, caller := range calls {
		f := code[caller]
		if f == nil {
			t.Errorf("%s: the code has no function %s", what, caller)
			return
		}
		if i+1 == len(calls) {
			return
		}
		callee := calls[i+1]
		linked := mentions(f, callee)
		for j := 0; j < i && !linked && callsParameter(f); j++ {
			linked = mentions(code[calls[j]], callee)
		}
		if !linked {
			t.Errorf("%s: %s does not call %s", what, caller, callee)
		}
	}
}

// functionsIn returns the functions of the packages in these folders, a method as Type.method.
func functionsIn(t *testing.T, dirs ...string) map[string]*ast.FuncDecl {
	t.Helper()
	all := make(map[string]*ast.FuncDecl)
	for _, dir := range dirs {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), dir+"/"+file.Name(), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					all[receiver(f)+f.Name.Name] = f
				}
			}
		}
	}
	return all
}

// receiver is the type that f is a method of, with a dot, or "".
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if name, ok := typ.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// mentions reports whether f's body names the function or method.
func mentions(f *ast.FuncDecl, function string) (found bool) {
	method := function[strings.LastIndex(function, ".")+1:]
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == method
		case *ast.Ident:
			found = found || n.Name == function
		}
		return true
	})
	return found
}

// callsParameter reports whether f calls a function that it was given.
func callsParameter(f *ast.FuncDecl) (found bool) {
	parameters := make(map[string]bool)
	for _, p := range f.Type.Params.List {
		if _, ok := p.Type.(*ast.FuncType); ok {
			for _, name := range p.Names {
				parameters[name.Name] = true
			}
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			name, ok := call.Fun.(*ast.Ident)
			found = found || ok && parameters[name.Name]
		}
		return true
	})
	return found
}

// startedLoop finds the loops that run.go starts in a goroutine, or in one with others.
var startedLoop = regexp.MustCompile(`(?:\.Go\(func\(\) \{ |\t\t)(?:r|upkeep)\.(?:\w+\.)?(\w+)\((?:ctx|extending|settling|announcing|listening)\b`)

// TestLoops: architecture.md names the loops that Worker.Run starts, all of them, and statements.md
// the functions of the Postgres backend whose statements go to the pool by themselves.
func TestLoops(t *testing.T) {
	var got, want []string
	_, table, _ := strings.Cut(read(t, "architecture.md"), "| loops | for |")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			got = append(got, quoted(cells[1])...)
		}
	}
	for _, m := range startedLoop.FindAllStringSubmatch(read(t, "../engine/run.go"), -1) {
		want = append(want, m[1])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("loops: the page has %q, the code %q", got, want)
	}
	_, sentence, _ := strings.Cut(strings.Join(strings.Fields(read(t, "statements.md")), " "), "go to the pool without `Backend.run`:")
	sentence, _, _ = strings.Cut(sentence, ".")
	got, want = quoted(sentence), nil
	for name, f := range functionsIn(t, "../backend/postgres") {
		if method, ok := strings.CutPrefix(name, "Backend."); ok && method != "queryRows" && usesPool(f) {
			want = append(want, method)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("statements without Backend.run: the page has %q, the code %q", got, want)
	}
}

// quoted returns what is in backquotes.
func quoted(text string) (names []string) {
	for _, m := range regexp.MustCompile("`([\\w.]+)`").FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// usesPool reports whether f calls b.queryRows, or b.onOneConn with b.db.
func usesPool(f *ast.FuncDecl) (found bool) {
	isOf := func(e ast.Expr, name string) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != name {
			return false
		}
		b, ok := s.X.(*ast.Ident)
		return ok && b.Name == "b"
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			found = found || isOf(call.Fun, "queryRows") || isOf(call.Fun, "onOneConn") && isOf(call.Args[1], "db")
		}
		return true
	})
	return found
}
