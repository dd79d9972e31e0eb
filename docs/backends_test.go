package docs

import (
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

// TestCapabilities: the methods in new-backend.md's table are those of package driver, all of them.
func TestCapabilities(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "new-backend.md"), "\n| methods |")
	table, _, _ = strings.Cut(table, "\n\n")
	var got, want []string
	for _, m := range regexp.MustCompile("`(\\w+\\(ctx context[^`]+)`").FindAllStringSubmatch(table, -1) {
		got = append(got, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+\(ctx context.+)$`).FindAllStringSubmatch(driverCode(t), -1) {
		want = append(want, strings.ReplaceAll(m[1], "queue.", ""))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("methods: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOptionalInterfaces: the comment of each of errand's backends names those interfaces of
// package driver that the backend lacks, after the words "except for", and no others. Delegator is
// for values that stand for several backends.
func TestOptionalInterfaces(t *testing.T) {
	capabilities := capabilitiesIn(t)
	if len(capabilities) < 20 {
		t.Fatalf("found only %d interfaces", len(capabilities))
	}
	for file, typ := range map[string]string{"postgres/postgres.go": "Backend", "sqlite/sqlite.go": "Backend", "redis/redis.go": "Backend", "memory/memory.go": "Queue"} {
		code := functionsIn(t, filepath.Join("../backend", filepath.Dir(file)))
		var lacks []string
		for name, methods := range capabilities {
			if slices.ContainsFunc(methods, func(method string) bool { return code[typ+"."+method] == nil }) {
				lacks = append(lacks, name)
			}
		}
		slices.Sort(lacks)
		comment := regexp.MustCompile(`(?m)((?:^//.*\n)+)type ` + typ + ` struct`).FindString(read(t, "../backend/"+file))
		comment = strings.Join(strings.Fields(strings.ReplaceAll(comment, "\n//", "\n")), " ")
		_, after, _ := strings.Cut(comment, "optional interface of package driver except for ")
		after, _, _ = strings.Cut(after, ". ")
		var named []string
		for _, m := range regexp.MustCompile(`\[driver\.(\w+)\]`).FindAllStringSubmatch(after, -1) {
			named = append(named, m[1])
		}
		slices.Sort(named)
		if !slices.Equal(named, lacks) {
			t.Errorf("%s lacks %v; its comment says %v", file, lacks, named)
		}
	}
}

// driverCode returns the code of package driver without its tests.
func driverCode(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../queue/driver/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			all.WriteString(read(t, file))
		}
	}
	return all.String()
}

// TestRouterOffers: the router's list of offers has each capability that it has methods for. For
// one that is not in the list it would claim that every backend has it.
func TestRouterOffers(t *testing.T) {
	list := read(t, "../backend/router/delegate.go")
	code := functionsIn(t, "../backend/router")
	found := 0
	for name, methods := range capabilitiesIn(t) {
		has := !slices.ContainsFunc(methods, func(method string) bool { return code["Queue."+method] == nil })
		if name == "Upkeeper" || !has { // the router's own
			continue
		}
		found++
		if !regexp.MustCompile(`\bdriver\.` + name + `\b`).MatchString(list) {
			t.Errorf("backend/router/delegate.go has no offer of %s", name)
		}
	}
	if found < 8 {
		t.Errorf("found only %d capabilities of the router", found)
	}
}

// capabilitiesIn returns the methods of each capability of package driver.
func capabilitiesIn(t *testing.T) map[string][]string {
	t.Helper()
	capabilities := make(map[string][]string)
	for _, m := range regexp.MustCompile(`(?ms)^type (\w+) interface \{\n(.*?)^\}`).FindAllStringSubmatch(driverCode(t), -1) {
		for _, method := range regexp.MustCompile(`(?m)^\t(\w+)\(`).FindAllStringSubmatch(m[2], -1) {
			capabilities[m[1]] = append(capabilities[m[1]], method[1])
		}
	}
	delete(capabilities, "Delegator")
	return capabilities
}
