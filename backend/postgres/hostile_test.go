package postgres_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// hostile are texts that mean something to SQL, to the syntax of arrays, JSON, rows or COPY, to a
// format, a pattern or a terminal, or that look like what does.
var hostile = slices.Concat([]string{
	// SQL
	`'`, `''`, `"`, `""`, `\`, `\\`, `\'`, `\"`, `'\''`, "`", `;`, `--`, `/*`, `*/`, `/* */ x`, `$$`, `$1`, `$10`, `$a$ x $a$`, `:x`, `?`, `@x`,
	`'; DROP TABLE errand.jobs; --`, `"; DROP SCHEMA errand CASCADE; --`, `x'); DELETE FROM errand.jobs; --`, `' OR '1'='1`,
	`\'; DROP TABLE errand.jobs; --`, `$1'; DROP TABLE errand.jobs; --`, `') RETURNING payload; --`, `E'\x1e'`, `U&'\0041'`, `errand`, `'errand'`,
	`errand.jobs`, `AND true`, `-1`, `(SELECT 1)`, `NULL`, `null`, `true`, `pg_catalog`, `%`, `_`,
	// arrays, rows, COPY, JSON
	`{}`, `{`, `}`, `,`, `{a,b}`, `{{a},{b}}`, `"a","b"`, `[0:1]={a,b}`, `("a",1)`, `\N`, `\.`, `[]`, `[1]`, `{"a": 1}`, `"}`, `"]`, `\x1e`, `\x00`, `\000`,
	`\u0000`, `\u001e`, `\ud800`, `a\u001eb`,
	// formats, templates, paths, mark-up
	`%s`, `%n%d%!`, `%[1]*d`, `{{.}}`, `${x}`, `$(id)`, `../../etc/passwd`, `<script>alert(1)</script>`, `&amp;`, ` `, ` x `, `.*`, `^$`, `~`,
	strings.Repeat(`'`, 200), strings.Repeat(`\`, 200), strings.Repeat(`"`, 200),
}, unprintable)

// unprintable are those that no name may contain, and every other text may.
var unprintable = []string{
	"\x01", "\t", "\n", "\r\n", "x\n", "\x1b[2J", "\x1c", "\x1d", "\x1e", "\x1f", "a\x1eb", "\"\x1e\"", "\x7f", "\u0080", "\u009f",
	"\u00a0", "\u2028", "\u2029", "\u200b", "\u202e", "\u2066x\u2069", "\ufeff", "\ufffd", "\uffff", "e\u0301", "\u00e9", "\u00df", "\u0130",
	"\u2018", "\u2019", "\u02bc", "\uff07", "\uff02", "\uff1b", "\u037e", "\u0441\u043e\u043c", "\uff04\uff11", "\u244a", "\u241e",
	"\U0001f600", "\U0001f468\u200d\U0001f469", "\U000e0041", "\U0010ffff", "'\U0001f600'", strings.Repeat("\U0001f600", 125), strings.Repeat("\x1e", 500),
}

// unstorable are what no text of SQL can be.
var unstorable = []string{"\x00", "a\x00b", "'\x00'; --", "\xff", "a\xc3(b", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\xa7", "\xe2\x80"}

// theseWays are those that send values differently: bound by either driver, or written into the
// statement. Without ERRAND_TESTS=whole it is the first of them.
var theseWays = firstWays(3)

// catalogue is all that defines a database, a line each.
const catalogue = `
SELECT string_agg(line, E'\n' ORDER BY line) FROM (
	SELECT format('schema %s %s %s', nspname, nspowner, nspacl) AS line FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp'
	UNION ALL SELECT format('relation %s %s %s %s %s %s', oid::regclass, relkind, relowner, relacl, reloptions, relpersistence) FROM pg_class
	UNION ALL SELECT format('column %s %s %s %s %s', attrelid::regclass, attname, atttypid, attnotnull, attacl) FROM pg_attribute
	UNION ALL SELECT format('default %s %s %s', adrelid::regclass, adnum, pg_get_expr(adbin, adrelid)) FROM pg_attrdef
	UNION ALL SELECT format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
	UNION ALL SELECT format('index %s', pg_get_indexdef(indexrelid)) FROM pg_index
	UNION ALL SELECT format('function %s %s %s %s %s', oid::regprocedure, proowner, proacl, proconfig, md5(prosrc)) FROM pg_proc
	UNION ALL SELECT format('type %s %s %s %s', oid::regtype, typtype, typowner, typacl) FROM pg_type
	UNION ALL SELECT format('label %s %s', enumtypid::regtype, enumlabel) FROM pg_enum
	UNION ALL SELECT format('trigger %s', pg_get_triggerdef(oid)) FROM pg_trigger
	UNION ALL SELECT format('rule %s', pg_get_ruledef(oid)) FROM pg_rewrite
	UNION ALL SELECT format('policy %s %s', polrelid::regclass, polname) FROM pg_policy
	UNION ALL SELECT format('extension %s', extname) FROM pg_extension
	UNION ALL SELECT format('setting %s %s', setrole, setconfig) FROM pg_db_role_setting d JOIN pg_database ON oid = setdatabase WHERE datname = current_database()
	UNION ALL SELECT format('migration %s %s', version, name) FROM errand.migrations
) AS lines`

// sameCatalogue returns a function that checks that nothing of the database's definition has
// changed since.
func sameCatalogue(t *testing.T, db queue.DB) func() {
	t.Helper()
	before := value[string](t, db, catalogue)
	return func() {
		t.Helper()
		after := value[string](t, db, catalogue)
		if after == before {
			return
		}
		was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
		for _, line := range was {
			if !slices.Contains(is, line) {
				t.Errorf("gone: %s", line)
			}
		}
		for _, line := range is {
			if !slices.Contains(was, line) {
				t.Errorf("new: %s", line)
			}
		}
	}
}

// isName says whether s may be the name of a queue, a kind or a worker.
func isName(s string) bool {
	return len(s) >= 1 && len(s) <= 200 && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}

// TestHostileTexts runs jobs through every statement, with each of the hostile texts wherever a
// text may stand.
func TestHostileTexts(t *testing.T) {
	if testing.Short() {
		t.Skip("sends many texts")
	}
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			db, _ := w.open(t, postgrestest.DSN(t))
			unchanged := sameCatalogue(t, db)
			for _, s := range hostile {
				life{t, db, backend(t, db, postgres.Options{}), "errand.jobs", s}.lead()
			}
			unchanged()
		})
	}
}

// TestHostileNamesRefused: a text that may not be a name, or is not a text for the server, is an
// InvalidError that names the field.
func TestHostileNamesRefused(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			db, _ := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{})
			unchanged := sameCatalogue(t, db)
			for _, s := range slices.Concat(unprintable, unstorable, []string{strings.Repeat("x", 201)}) {
				isRefused(t, "Queue", s, q.Enqueue(t.Context(), nil, &queue.Job{Queue: s, Kind: "test"}))
				isRefused(t, "Kind", s, q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test"}, &queue.Job{Kind: s}))
				for field, set := range map[string]func(*queue.ClaimRequest){
					"Queues": func(r *queue.ClaimRequest) { r.Queues = append(r.Queues, s) },
					"Kinds":  func(r *queue.ClaimRequest) { r.Kinds = append(r.Kinds, s) },
					"Worker": func(r *queue.ClaimRequest) { r.Worker = s },
				} {
					req := request(1)
					set(&req)
					_, err := q.Claim(t.Context(), req)
					isRefused(t, field, s, err)
				}
			}
			for _, s := range unstorable {
				isRefused(t, "Key", s, q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test", Key: s}))
				isRefused(t, "Headers", s, q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test", Headers: map[string]string{s: ""}}))
				isRefused(t, "Headers", s, q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test", Headers: map[string]string{"": s}}))
				isRefused(t, "Payload", s, q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test", Payload: json.RawMessage(`"` + s + `"`)}))
			}
			isRefused(t, "Key", "501 bytes", q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test", Key: strings.Repeat("x", 501)}))
			unchanged()
			if n := value[int](t, db, `SELECT count(*) FROM errand.jobs`); n != 0 {
				t.Errorf("%d jobs written, want 0", n)
			}
		})
	}
}

func isRefused(t *testing.T, field, s string, err error) {
	t.Helper()
	var bad *queue.InvalidError
	if !errors.As(err, &bad) || bad.Field != field {
		t.Errorf("%q as %s: got error %v, want an InvalidError for it", s, field, err)
	}
}

// TestHostileArguments: errand does not check arguments that it only looks for or gets back. The
// server refuses those that cannot be a text, and the handle still works afterwards.
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			db, _ := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{})
			unchanged := sameCatalogue(t, db)
			for _, s := range unstorable {
				job := &queue.Job{ID: 1, Fence: 1, Worker: s}
				for what, f := range map[string]func() error{
					"Jobs by queue":    func() error { _, _, err := q.Jobs(t.Context(), queue.Filter{Queue: s}); return err },
					"Jobs by kind":     func() error { _, _, err := q.Jobs(t.Context(), queue.Filter{Kind: s}); return err },
					"Jobs by key":      func() error { _, _, err := q.Jobs(t.Context(), queue.Filter{Key: s}); return err },
					"Redrive of queue": func() error { _, err := q.Redrive(t.Context(), nil, queue.Selection{Queue: s}); return err },
					"Redrive of kind":  func() error { _, err := q.Redrive(t.Context(), nil, queue.Selection{Kind: s}); return err },
					"Sleep of worker":  func() error { _, err := q.Sleep(t.Context(), s, []string{"default"}); return err },
					"Sleep in queue":   func() error { _, err := q.Sleep(t.Context(), "w", []string{s}); return err },
					"Extend":           func() error { _, _, err := q.Extend(t.Context(), time.Minute, job); return err },
					"Settle":           func() error { _, err := q.Settle(t.Context(), nil, queue.Outcome{Job: job}); return err },
				} {
					if err := f(); err == nil {
						t.Errorf("%s %q: got no error", what, s)
					}
				}
			}
			unchanged()
		})
	}
}

// TestRecordSeparator: payloads travel in one text with U+001E between them, and no payload can
// contain it: raw it is not JSON, and escaped it is six other characters until the payloads are
// apart.
func TestRecordSeparator(t *testing.T) {
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			db, _ := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{})
			good := []string{`"\u001e"`, `"\u001E,1"`, `{"\u001e": ["\u001e\u001e"]}`, `"\\u001e"`, `"\\\u001e"`, `"\u241e␞"`, `"x"`, `null`}
			for _, key := range []string{"", "k"} {
				batch := make([]*queue.Job, len(good))
				for i, p := range good {
					batch[i] = &queue.Job{Kind: "test", Payload: json.RawMessage(p)}
				}
				batch[0].Key = key // with one, the statement is another
				enqueue(t, q, batch...)
				for i, j := range claim(t, q, len(good)+1) {
					var got, want any
					if err := errors.Join(json.Unmarshal(j.Payload, &got), json.Unmarshal([]byte(good[i]), &want)); err != nil || !reflect.DeepEqual(got, want) {
						t.Errorf("payload %d of a batch: got %s, error %v; want %s", i, j.Payload, err, good[i])
					}
				}
			}
			for _, bad := range []string{"\x1e", "1\x1e2", "\"\x1e\"", "[1,\x1e2]", "{}\x1e{}", "\x1enull", "null\x1e", "\"\\\x1e\""} {
				isRefused(t, "Payload", bad, q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test"}, &queue.Job{Kind: "test", Payload: json.RawMessage(bad)}))
			}
		})
	}
}

// FuzzPayloads: the server takes payloads that Check accepts apart as Enqueue has put them
// together.
func FuzzPayloads(f *testing.F) {
	for _, seed := range []string{`null`, `"\u001e"`, "\"\x1e\"", "1\x1e2", " {} ", "", `"\\u001e"`} {
		f.Add([]byte(seed), []byte(`{"a": "\u001E"}`))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		batch := []*queue.Job{{Kind: "test", Payload: a}, {Kind: "test", Payload: b}, {Kind: "test"}}
		for _, j := range batch {
			if j.Check(0) != nil {
				return
			}
		}
		want := []string{string(cmp.Or(string(a), "null")), string(cmp.Or(string(b), "null")), "null"}
		if got := strings.Split(postgres.Payloads(batch), "\x1e"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestHostileLong: long texts of characters that are quoted, escaped or four bytes long.
func TestHostileLong(t *testing.T) {
	if testing.Short() {
		t.Skip("writes long payloads")
	}
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			db, _ := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{})
			for _, s := range []string{`'`, `\`, `"`, `$1`, "\x1e", "\U0001f600"} {
				size := len(jsonOf(t, s)) - len(`""`)
				payload := jsonOf(t, strings.Repeat(s, (1<<20-2)/size))
				headers := map[string]string{"h": strings.Repeat(s, 65_000/len(s))}
				enqueue(t, q, &queue.Job{Kind: "test", Payload: payload, Headers: headers})
				enqueue(t, q, &queue.Job{Kind: "test", Payload: payload, Headers: headers}, &queue.Job{Kind: "test", Payload: payload, Headers: headers})
				failed := errors.New(strings.Repeat(s, 100_000))
				for _, j := range claim(t, q, 4) {
					if got := jsonString(t, j.Payload); got != jsonString(t, payload) || !reflect.DeepEqual(j.Headers, headers) {
						t.Errorf("%q, repeated: comes back otherwise", s)
					}
					if _, err := q.Settle(t.Context(), nil, queue.Outcome{Job: j, Action: queue.Dead, Err: failed}); err != nil {
						t.Error(err)
					}
					if r, _, err := q.Job(t.Context(), j.ID); err != nil || r.LastError != queue.ErrorText(failed) {
						t.Errorf("%q, repeated, as an error text: comes back otherwise, error %v", s, err)
					}
				}
			}
		})
	}
}

func jsonOf(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func jsonString(t *testing.T, text []byte) (s string) {
	t.Helper()
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
