package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestBackendsNameTests: the tests that backends.md names as `file: name` are there, and so are the
// cases of the suite in new-backend.md's table of failures.
func TestBackendsNameTests(t *testing.T) {
	text := read(t, "backends.md")
	cited := regexp.MustCompile("`([a-z/_]+\\.go): (\\w+)`").FindAllStringSubmatch(text, -1)
	for _, c := range cited {
		if !strings.Contains(read(t, filepath.Join("..", c[1])), "func "+c[2]+"(") {
			t.Errorf("%s has no test %s", c[1], c[2])
		}
	}
	_, table, _ := strings.Cut(read(t, "new-backend.md"), "| fails |")
	table, _, _ = strings.Cut(table, "\n\n")
	cases := regexp.MustCompile("`([a-z]+)/([^`…]+)(…?)`").FindAllStringSubmatch(table, -1)
	for _, c := range cases {
		suite := read(t, "../backend/backendtest/"+c[1]+".go")
		if name := `{"` + c[2]; !strings.Contains(suite, name+`"`) && (c[3] == "" || !strings.Contains(suite, name)) {
			t.Errorf("the theme %s of the suite has no case %q", c[1], c[2])
		}
	}
	if len(cited) < 4 || len(cases) < 10 {
		t.Errorf("found only %d tests and %d cases", len(cited), len(cases))
	}
}

// TestCapabilities: new-backend.md's table has a row for each capability of package driver.
func TestCapabilities(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "new-backend.md"), "\n| capability |")
	table, _, _ = strings.Cut(table, "\n\n")
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^\| \*\*(\w+)\*\*`).FindAllStringSubmatch(table, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	if want := slices.Sorted(maps.Keys(capabilitiesIn(t))); !slices.Equal(got, want) {
		t.Errorf("capabilities: got\n%v\nwant\n%v", got, want)
	}
}

// TestOptionalInterfaces: the comment of each of errand's backends names those interfaces of
// package driver that the backend lacks, after the words "except for", or all that it has, and no
// others. Delegator is for values that stand for several backends.
func TestOptionalInterfaces(t *testing.T) {
	for file, typ := range map[string]string{
		"postgres/postgres.go": "Backend", "sqlite/sqlite.go": "Backend", "redis/redis.go": "Backend", "memory/memory.go": "Queue", "remote/remote.go": "Queue",
	} {
		has, lacks := capabilitiesOf(t, filepath.Dir(file), typ)
		comment := regexp.MustCompile(`(?m)((?:^//.*\n)+)type ` + typ + ` struct`).FindString(read(t, "../backend/"+file))
		comment = strings.Join(strings.Fields(strings.ReplaceAll(comment, "\n//", "\n")), " ")
		want := lacks
		_, after, isExcept := strings.Cut(comment, "optional interface of package driver except for ")
		if !isExcept {
			_, after, _ = strings.Cut(comment, "Of the optional interfaces of package driver it has ")
			want = has
		}
		after, _, _ = strings.Cut(after, ". ")
		var named []string
		for _, m := range regexp.MustCompile(`\[driver\.(\w+)\]`).FindAllStringSubmatch(after, -1) {
			named = append(named, m[1])
		}
		if slices.Sort(named); !slices.Equal(named, want) {
			t.Errorf("%s has %v and lacks %v; its comment says %v", file, has, lacks, named)
		}
	}
}

// TestRouterOffers: the router's list of offers has each capability that it has methods for. For
// one that is not in the list it would claim that every backend has it.
func TestRouterOffers(t *testing.T) {
	list := read(t, "../backend/router/delegate.go")
	has, _ := capabilitiesOf(t, "router", "Queue")
	for _, name := range has {
		if name != "Upkeeper" && !regexp.MustCompile(`\bdriver\.`+name+`\b`).MatchString(list) { // which is the router's own
			t.Errorf("backend/router/delegate.go has no offer of %s", name)
		}
	}
	if len(has) < 8 {
		t.Errorf("found only %d capabilities of the router", len(has))
	}
}

// capabilitiesOf returns the capabilities of package driver that a type in a folder of backend/
// has, and those that it lacks. A method with the name of a capability's must have its signature.
func capabilitiesOf(t *testing.T, folder, typ string) (has, lacks []string) {
	t.Helper()
	code := functionsIn(t, filepath.Join("../backend", folder))
	for name, methods := range capabilitiesIn(t) {
		isWhole := true
		for _, m := range methods {
			method, want := m.Names[0].Name, signature(m.Type.(*ast.FuncType))
			f := code[typ+"."+method]
			isWhole = isWhole && f != nil
			if f != nil && signature(f.Type) != want {
				t.Errorf("backend/%s: %s is func%s, and that of driver.%s is func%s", folder, method, signature(f.Type), name, want)
			}
		}
		if isWhole {
			has = append(has, name)
		} else {
			lacks = append(lacks, name)
		}
	}
	slices.Sort(has)
	slices.Sort(lacks)
	return has, lacks
}

// signature returns the types of a function's parameters and results.
func signature(f *ast.FuncType) string {
	typesOf := func(list *ast.FieldList) string {
		var all []string
		for _, field := range list.List {
			for range max(len(field.Names), 1) {
				all = append(all, strings.ReplaceAll(types.ExprString(field.Type), "driver.", ""))
			}
		}
		return "(" + strings.Join(all, ", ") + ")"
	}
	if f.Results == nil {
		return typesOf(f.Params)
	}
	return typesOf(f.Params) + " " + typesOf(f.Results)
}

// capabilitiesIn returns the methods of each capability of package driver.
func capabilitiesIn(t *testing.T) map[string][]*ast.Field {
	t.Helper()
	capabilities := make(map[string][]*ast.Field)
	for _, file := range driverFiles(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if i, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() && spec.Name.Name != "Delegator" {
					capabilities[spec.Name.Name] = i.Methods.List
				}
			}
			return true
		})
	}
	if len(capabilities) < 20 {
		t.Fatalf("found only %d capabilities", len(capabilities))
	}
	return capabilities
}

// driverFiles returns the files of package driver without its tests.
func driverFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../queue/driver/*.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}
