package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/cli/strict"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

// tokensVariable has the text of a file of tokens.
const tokensVariable = "ERRAND_GATEWAY_TOKENS"

// tokenList is what a file of tokens says. Its errors name the line and the field, and no secret.
type tokenList struct {
	from   string // the file, or the variable
	text   []byte
	getenv func(string) string
	tokens []gateway.Token
	places []map[string]int64 // of each token: where its fields are
}

// parseTokens reads the text of a file of tokens.
func parseTokens(from string, text []byte, getenv func(string) string) (*tokenList, error) {
	l := &tokenList{from: from, text: text, getenv: getenv}
	e := strict.Check(text)
	if e == nil {
		root := strict.Object{Fields: map[string]any{"tokens": strict.List(l.readToken)}}
		e = root.Read(json.NewDecoder(bytes.NewReader(text)))
	}
	if e == nil && len(l.tokens) == 0 {
		e = &strict.Error{Field: "tokens", Problem: "missing or empty: nobody could use the gateway"}
	}
	if e != nil {
		return nil, l.at(e)
	}
	return l, nil
}

// at returns e with the line.
func (l *tokenList) at(e *strict.Error) error {
	line := 1 + bytes.Count(l.text[:min(e.Offset, int64(len(l.text)))], []byte("\n"))
	return fmt.Errorf("%s:%d: %w", l.from, line, e)
}

// readToken reads a token, and appends it.
func (l *tokenList) readToken(d *json.Decoder) *strict.Error {
	var t gateway.Token
	var variable string
	var may []string
	o := strict.Object{Fields: map[string]any{
		"name": &t.Access.Name, "secret": &t.Secret, "secret_env": &variable, "queues": &t.Access.Queues, "may": &may,
		"workers": &t.Access.Workers, "max_requests": &t.Access.MaxRequests, "max_enqueued": &t.Access.MaxEnqueued,
	}}
	if e := o.Read(d); e != nil {
		return e
	}
	wrong := func(field, problem string, args ...any) *strict.Error {
		at, ok := o.At[field]
		if !ok {
			at = o.Begin
		}
		return &strict.Error{Field: field, Offset: at, Problem: fmt.Sprintf(problem, args...)}
	}
	for _, name := range []string{"name", "queues", "may"} {
		if _, ok := o.At[name]; !ok {
			return wrong(name, "missing")
		}
	}
	_, hasSecret := o.At["secret"]
	_, hasVariable := o.At["secret_env"]
	switch {
	case t.Access.Name == "":
		return wrong("name", "empty: it is in the log, and rates are counted by it")
	case hasSecret == hasVariable:
		return wrong("secret", "either secret or secret_env is needed, and not both of them")
	case hasVariable:
		if t.Secret = l.getenv(variable); t.Secret == "" {
			return wrong("secret_env", "the variable %s is not set", variable)
		}
		o.At["secret"] = o.At["secret_env"]
	}
	if strings.ContainsFunc(t.Secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return wrong("secret", "it has spaces or characters beyond printable ASCII, which no header carries")
	}
	var problem string
	if t.Access.May, problem = operations(may); problem != "" {
		return wrong("may", "%s", problem)
	}
	if problem := checkQueues(t.Access.Queues); problem != "" {
		return wrong("queues", "%s", problem)
	}
	if other := l.overlap(t.Access); other != "" {
		return wrong("workers", "workers of this client could take the names of those of %s: begin the names differently", other)
	}
	l.tokens, l.places = append(l.tokens, t), append(l.places, o.At)
	return nil
}

// operations returns the operations of names, or what is wrong with them.
func operations(names []string) (may gateway.Operation, problem string) {
	known := map[string]gateway.Operation{"work": gateway.Work, "everything": gateway.Everything}
	list := []string{"work", "everything"}
	for o := gateway.Enqueue; o <= gateway.Cancel; o <<= 1 {
		known[o.String()] = o
		list = append(list, o.String())
	}
	for _, name := range names {
		if known[name] == 0 {
			return 0, fmt.Sprintf("%.40q is no operation: there are %s", name, strings.Join(list, ", "))
		}
		may |= known[name]
	}
	if may == 0 {
		return 0, "empty: say what the client may do, of " + strings.Join(list, ", ")
	}
	return may, ""
}

// checkQueues returns what is wrong with the names of queues, or "".
func checkQueues(names []string) string {
	if len(names) == 0 {
		return `empty: name queues, or "*" for all`
	}
	for _, name := range names {
		if err := (&queue.Job{Kind: "kind", Queue: name}).Check(0); err != nil || name == "" {
			return fmt.Sprintf("%.40q is no name of a queue", name)
		}
	}
	return ""
}

// overlap returns the name of a client with workers whose names may be those of a's workers, or "".
func (l *tokenList) overlap(a gateway.Access) string {
	for _, t := range l.tokens {
		b := t.Access
		if a.Name != b.Name && a.May&b.May&gateway.Work != 0 && a.Workers != "" && b.Workers != "" &&
			(strings.HasPrefix(a.Workers, b.Workers) || strings.HasPrefix(b.Workers, a.Workers)) {
			return b.Name
		}
	}
	return ""
}

// fieldPattern matches how the gateway names a field of a token.
var fieldPattern = regexp.MustCompile(`^Options\.Tokens\[(\d+)\]\.(.+)$`)

// explain returns an error of the gateway about the tokens with its place.
func (l *tokenList) explain(err error) error {
	bad, ok := errors.AsType[*queue.InvalidError](err)
	if !ok {
		return err
	}
	m := fieldPattern.FindStringSubmatch(bad.Field)
	if m == nil {
		return err
	}
	i, _ := strconv.Atoi(m[1])
	field := wire.FieldName(m[2])
	at, ok := l.places[i][field]
	if !ok {
		at = l.places[i]["name"]
	}
	return l.at(&strict.Error{Field: fmt.Sprintf("tokens[%d].%s", i, field), Offset: at, Problem: bad.Problem})
}

// readTokensFile returns the text of a file of tokens that only its owner and its group may read.
func readTokensFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o007 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s: %w: every user of this machine may use it: chmod o= %s (a Secret of Kubernetes: defaultMode: 0440, and fsGroup)",
			name, fs.ErrPermission, name)
	}
	return os.ReadFile(name)
}

// readTokens returns the tokens of a file, or of the environment if name is "".
func (a app) readTokens(name string) (*tokenList, error) {
	if name == "" {
		text := a.Getenv(tokensVariable)
		if text == "" {
			return nil, cli.Usagef("no tokens: give --tokens, or set %s", tokensVariable)
		}
		return parseTokens(tokensVariable, []byte(text), a.Getenv)
	}
	text, err := readTokensFile(name)
	if err != nil {
		return nil, err
	}
	return parseTokens(name, text, a.Getenv)
}
