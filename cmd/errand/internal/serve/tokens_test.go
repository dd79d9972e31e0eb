package serve

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/gateway"
)

// testSecret is in none of the errors.
const testSecret = "swordfish-swordfish"

// TestBadTokens: the error of a bad file names the line and the field, and no secret.
func TestBadTokens(t *testing.T) {
	const good = `"name": "shop", "secret": "` + testSecret + `", "queues": ["a"], "may": ["enqueue"]`
	file := func(tokens ...string) string {
		return "{\"tokens\": [\n{" + strings.Join(tokens, "},\n{") + "}\n]}"
	}
	without := func(old, replacement string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %s", old)
		}
		return file(`"name": "reader", "secret": "another-secret-0", "queues": ["*"], "may": ["read"]`, strings.Replace(good, old, replacement, 1))
	}
	work := strings.Replace(good, `"enqueue"`, `"work"`, 1)
	for text, want := range map[string]string{
		file(good): "",
		file(good + `, "max_requests": 5, "max_enqueued": -1`): "",
		``:                                          "f:1: empty",
		`{}`:                                        "f:1: tokens: missing or empty",
		`{"tokens": []}`:                            "f:1: tokens: missing or empty",
		`{"token": []}`:                             "f:1: token: unknown field: did you mean tokens?",
		"{\"tokens\": [\n{" + good:                  "f:2: not one JSON value: it ends early",
		"{\"tokens\": [\n{\n" + good + ",}]}":       "f:3: not one JSON value: invalid character '}'",
		"[]":                                        "f:1: an object is expected",
		without(`"queues"`, "\n\"queus\""):          "f:4: tokens[1].queus: unknown field: did you mean queues?",
		without(`"name": "shop", `, ""):             "f:3: tokens[1].name: missing",
		without(`"shop"`, `""`):                     "f:3: tokens[1].name: empty",
		without(`"shop"`, `"reader"`):               `f:3: tokens[1].name: "reader" is the name of a different Access`,
		without(`"shop"`, `5`):                      "f:3: tokens[1].name: a string is expected",
		without(`, "queues": ["a"]`, ""):            "f:3: tokens[1].queues: missing",
		without(`["a"]`, `[]`):                      "f:3: tokens[1].queues: empty",
		without(`["a"]`, `"a"`):                     "f:3: tokens[1].queues: a list of strings is expected",
		without(`["a"]`, `["a", ""]`):               `f:3: tokens[1].queues: "" is no name of a queue`,
		without(`["a"]`, `["ä"]`):                   `f:3: tokens[1].queues: "ä" is no name of a queue`,
		without(`["enqueue"]`, `[]`):                "f:3: tokens[1].may: empty",
		without(`["enqueue"]`, `["Enqueue"]`):       `f:3: tokens[1].may: "Enqueue" is no operation: there are work, everything, enqueue,`,
		without(`["enqueue"]`, `["work"]`):          "f:3: tokens[1].workers: empty beside the queues",
		without(`"secret": "`+testSecret+`", `, ""): "f:3: tokens[1].secret: either secret or secret_env is needed",
		without(`"secret":`, `"secret_env": "SET", "secret":`):         "f:3: tokens[1].secret: either secret or secret_env is needed, and not both of",
		without(`"secret": "`+testSecret+`"`, `"secret_env": "UNSET"`): "f:3: tokens[1].secret_env: the variable UNSET is not set",
		without(`"secret": "`+testSecret+`"`, `"secret_env": "SHORT"`): "f:3: tokens[1].secret: 5 bytes: at least 16",
		without(testSecret, "swordfish"):                               "f:3: tokens[1].secret: 9 bytes: at least 16",
		without(testSecret, "another-secret-0"):                        "f:3: tokens[1].secret: it is that of an earlier token",
		without(testSecret, testSecret+" "):                            "f:3: tokens[1].secret: it has spaces",
		without(testSecret, testSecret+`\n`):                           "f:3: tokens[1].secret: it has spaces",
		without(`"`+testSecret+`"`, `1234567890123456`):                "f:3: tokens[1].secret: a string is expected",
		without(`"may"`, `"max_requests": "5", "may"`):                 "f:3: tokens[1].max_requests: a whole number",
		file(work+`, "workers": "a-"`, strings.NewReplacer(`"shop"`, `"other"`, testSecret, "another-secret-0").Replace(work)+`, "workers": "a-b"`): "f:3: tokens[1].workers: workers of this client could take the names of those of shop",
	} {
		getenv := func(name string) string { return map[string]string{"SET": testSecret, "SHORT": "short"}[name] }
		l, err := parseTokens("f", []byte(text), getenv)
		if err == nil {
			var g *gateway.Handler
			if g, err = gateway.New(memory.New(memory.Options{}), gateway.Options{Tokens: l.tokens}); err == nil {
				g.Close()
			}
			err = l.explain(err)
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
		if strings.Contains(got, "swordfish") || strings.Contains(got, "another-secret") || strings.Contains(got, "1234567890") {
			t.Errorf("the error has a secret: %s", got)
		}
	}
}

// TestTokensFile: a file that every user may read is refused, and a missing one named. The variable
// counts without a file.
func TestTokensFile(t *testing.T) {
	const text = `{"tokens": [{"name": "shop", "secret": "` + testSecret + `", "queues": ["a"], "may": ["read"]}]}`
	name := filepath.Join(t.TempDir(), "tokens.json")
	a := app{&cli.App{Err: io.Discard, Getenv: func(string) string { return "" }}}
	if _, err := a.readTokens(name); err == nil || !strings.Contains(err.Error(), "tokens.json: no such file") {
		t.Errorf("missing file: %v", err)
	}
	for mode, isGood := range map[os.FileMode]bool{0o600: true, 0o440: true, 0o640: true, 0o644: false, 0o602: false} {
		if runtime.GOOS == "windows" {
			break // it has no such modes
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if l, err := a.readTokens(name); (err == nil) != isGood || isGood && len(l.tokens) != 1 {
			t.Errorf("mode %v: %v", mode, err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.readTokens(""); err == nil || !strings.Contains(err.Error(), tokensVariable) {
		t.Errorf("nothing given: %v", err)
	}
	a.Getenv = func(name string) string { return map[string]string{tokensVariable: text}[name] }
	if l, err := a.readTokens(""); err != nil || l.tokens[0].Access.Name != "shop" {
		t.Errorf("the variable: %v", err)
	}
	a.Getenv = func(string) string { return "{\n}" }
	if _, err := a.readTokens(""); err == nil || !strings.HasPrefix(err.Error(), tokensVariable+":1: tokens: missing") {
		t.Errorf("a bad variable: %v", err)
	}
}
