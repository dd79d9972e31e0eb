package dburl_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// open opens url for the time of the test.
func open(t *testing.T, url string) *dburl.Database {
	t.Helper()
	d, err := dburl.Open(url, dburl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestSQLitePaths: which file a URL names. Each begins in an empty working directory, where DIR
// stands for another.
func TestSQLitePaths(t *testing.T) {
	tests := []struct {
		url, want string // want is relative to the working directory
	}{
		{"sqlite:a.db", "a.db"},
		{"SQLite:a.db", "a.db"},
		{"sqlite:./a.db", "a.db"},
		{"sqlite:sub/a.db", "sub/a.db"},
		{"sqlite:sub/../a.db", "a.db"},
		{"sqlite://a.db", "a.db"},
		{"sqlite://sub/a.db", "sub/a.db"},
		{"sqlite:DIR/a.db", "DIR/a.db"},
		{"sqlite://DIR/a.db", "DIR/a.db"},
		{"sqlite:///DIR/a.db", "DIR/a.db"},
		{"sqlite:my file.db", "my file.db"},
		{"sqlite:my%20file.db", "my file.db"},
		{"sqlite:a+b.db", "a+b.db"},
		{"sqlite:a&b=c;d.db", "a&b=c;d.db"},
		{"sqlite:100%25.db", "100%.db"},
		{"sqlite:what%3f%23.db", "what?#.db"},
		{"sqlite:%2541.db", "%41.db"}, // decoded once
		{"sqlite:sub%2Fa.db", "sub/a.db"},
		{"sqlite:me@home.db", "me@home.db"},
		{"sqlite://sub/me@home.db", "sub/me@home.db"},
		{"sqlite:a:b.db", "a:b.db"},
		{"sqlite:größe.db", "größe.db"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			t.Chdir(t.TempDir())
			dir := t.TempDir()
			if err := os.Mkdir("sub", 0o700); err != nil {
				t.Fatal(err)
			}
			want, err := filepath.Abs(strings.Replace(tt.want, "DIR", dir, 1))
			if err != nil {
				t.Fatal(err)
			}
			d := open(t, strings.Replace(tt.url, "DIR", dir, 1))
			if _, err := os.Stat(want); err != nil {
				t.Errorf("want a file %s: %v", want, err)
			}
			if got, want := d.Description, "SQLite file "+want; d.Scheme != dburl.SQLite || got != want {
				t.Errorf("got %s, %s, want %s, %s", d.Scheme, got, dburl.SQLite, want)
			}
			t.Chdir(dir) // connections that are opened from now on are to the same file
			if err := d.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOthers: the URLs that are not of files. Nothing is connected to.
func TestOthers(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSERVICE"} {
		t.Setenv(name, "")
	}
	t.Setenv("PGHOST", "from.env")
	tests := []struct {
		url, scheme, description string
	}{
		{"postgres://u:secret@db.test:5433/shop?sslmode=require", dburl.Postgres, "PostgreSQL database shop at db.test:5433"},
		{"postgresql://u:secret@db.test/shop", dburl.Postgres, "PostgreSQL database shop at db.test:5432"},
		{"POSTGRES://u@db.test", dburl.Postgres, "PostgreSQL database u at db.test:5432"},
		{"postgres://u:a%2Fb%40c@db.test/shop", dburl.Postgres, "PostgreSQL database shop at db.test:5432"},
		{"postgres://u:secret@[::1]/shop", dburl.Postgres, "PostgreSQL database shop at [::1]:5432"},
		{"postgres://u:secret@one.test:1,two.test:2/shop", dburl.Postgres, "PostgreSQL database shop at one.test:1"},
		{"postgres:///shop?host=/run/pg&password=secret", dburl.Postgres, "PostgreSQL database shop at /run/pg/.s.PGSQL.5432"},
		{"postgres:///shop", dburl.Postgres, "PostgreSQL database shop at from.env:5432"},
		{"memory:", dburl.Memory, "memory of this process"},
		{"memory://", dburl.Memory, "memory of this process"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			d := open(t, tt.url)
			if d.Scheme != tt.scheme || d.Description != tt.description {
				t.Errorf("got %s, %s, want %s, %s", d.Scheme, d.Description, tt.scheme, tt.description)
			}
			if got, want := d.DB != nil, tt.scheme == dburl.Postgres; got != want {
				t.Errorf("DB is there: %v, want %v", got, want)
			}
		})
	}
}

// TestBad: each is an error of the URL that says what is wrong, and repeats nothing of what stands
// where a password may be.
func TestBad(t *testing.T) {
	t.Chdir(t.TempDir())
	tests := []struct {
		url, want string // want is in the error
	}{
		{"", "empty: set it, as the environment variable DATABASE_URL"},
		{"errand.db", "no scheme"},
		{"host=db.test user=u password=secret", "no scheme"},
		{"u:secret@db.test/shop", `the scheme "u" is not known`},
		{"mysql://u:secret@db.test/shop", `the scheme "mysql" is not known: it is postgres://`},
		{"sqlite3:a.db", `the scheme "sqlite3" is not known`},
		{"file:a.db", `the scheme "file" is not known`},
		{":a.db", "is not known"},
		{"sqlite:a.db\n", "control character"},

		{"redis:", "// must follow"},
		{"redis:localhost", "// must follow"},
		{"redis://", "no host"},
		{"redis://u:secret@", "no host"},
		{"redis://u:secret", "host 1: the port is a number from 1 to 65535, and a password is followed by @"},
		{"redis://:secret", "host 1: the port"},
		{"redis://u:se:cret:secret", "host 1: the port"},
		{"redis://u:12:secret:34", "host 1: an IPv6 address is written [address]:port"},
		{"redis://u:sec/secret@db.test", "one @"},
		{"redis://u:p@secret@db.test", "one @"},
		{"redis://u:p?secret@db.test", "a ? %3F"},
		{"redis://u:p#secret@db.test", "a # %23"},
		{"redis://u:secret%zz@db.test", "percent-encoded"},
		{"redis://db.test:0", "host 1: the port"},
		{"redis://db.test:65536", "host 1: the port"},
		{"redis://one.test:1,two.test:x", "host 2: the port"},
		{"redis://one.test,,two.test", "host 2: no name"},
		{"redis://u:secret@[::1", "no IPv6 address"},
		{"redis://[secret]:1", "no IPv6 address"},
		{"redis://::1", "host 1: an IPv6 address is written"},
		{"redis://my secret", "a character that no name of a host has"},
		{"redis://db.test/1", "a database number other than 0"},
		{"redis://db.test/secret", "a database number other than 0"},
		{"redis://db.test#secret", "a # after the hosts"},
		{"redis://db.test?name=secret", "a parameter is not known: there are namespace,"},
		{"redis://db.test?password=secret", "a parameter is not known"},
		{"redis://db.test?secret;", "percent-encoded"},
		{"redis://db.test?namespace=a&namespace=b", "namespace is given once"},
		{"redis://db.test?namespace=", "and with a value"},
		{"redis://db.test?spread=many", "spread is a whole number from 1 on"},
		{"redis://db.test?durable=0", "durable is a whole number from 1 on"},
		{"redis://db.test?cacert=a.pem", "the scheme is rediss"},
		{"rediss://db.test?cacert=none.pem", "cacert: open none.pem"},
		{"rediss://db.test?cert=none.pem", "cert and key are given together"},
		{"rediss://db.test?cert=none.pem&key=none.pem", "cert and key: open none.pem"},
		{"redis://db.test?sentinel-password=secret", "are for Sentinels: it is redis+sentinel://"},
		{"redis+sentinel:db.test", "// must follow the scheme: it is redis+sentinel://"},
		{"redis+sentinel://u:secret@", "no host: it is redis+sentinel://"},
		{"redis+sentinel://one.test,two.test:26379", "the name of a master, as the Sentinels know it, follows the hosts"},
		{"redis+sentinel://one.test/main/secret", "the name of a master"},
		{"redis+sentinel://one.test/main?cert=a.pem", "the scheme is rediss or rediss+sentinel"},
		{"postgres://u:secret\x00@db.test/shop", "control character"},

		{"sqlite:", "no path"},
		{"sqlite://", "no path"},
		{"sqlite::memory:", "memory: is a queue in memory"},
		{"sqlite://:memory:", "memory: is a queue in memory"},
		{"sqlite:file:a.db?mode=ro", "parameters"},
		{"sqlite:file:a.db", "file: URI"},
		{"sqlite:a.db?mode=ro", "no parameters"},
		{"sqlite:a.db#1", "no parameters"},
		{"sqlite:100%.db", "two hexadecimal digits must follow"},
		{"sqlite:a%00.db", "control character"},
		{"sqlite://u:secret@db.test/shop", "neither user nor host"},

		{"memory:shop", "nothing after it"},
		{"memory://u:secret@db.test", "nothing after it"},

		{"postgres:", "// must follow"},
		{"postgres:u:secret@db.test", "// must follow"},
		{"postgres://u:12/secret@db.test/shop", "one @"},
		{"postgres://u:p@secret@db.test/shop", "one @"},
		{"postgres://u:p@db.test/shop?password=p@secret", "one @"},
		{"postgres://u:p@db.test?password=p@secret", "one @"},
		{"postgres://u:secret%zz@db.test/shop", "percent-encoded"},
		{"postgres://u:secret %41@db.test/shop", "percent-encoded"},
		{"postgres://u:my secret", "percent-encoded"}, // taken for a port
		{"postgres://db.test/shop?password=p&secret", "percent-encoded"},
		{"postgres://db.test/shop?secret=a=b", "percent-encoded"},
		{"postgres://db.test/`: secret", "percent-encoded"},
		{"postgres://u:secret@db.test:x/shop", "invalid port"},
		{"postgres://u:secret", "invalid port"},
		{"postgres://u:secret@db.test/shop?connect_timeout=x", "invalid connect_timeout"},
		{"postgres://u:secret@db.test/shop?sslmode=perhaps", "sslmode is invalid"},
		{"postgres://u:secret@db.test/shop?password=secret`: secret&sslmode=perhaps", "percent-encoded"},
		{"postgres://u:secret@db.test/shop?password=secret`:%20secret&sslmode=perhaps", "sslmode is invalid"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			d, err := dburl.Open(tt.url, dburl.Options{})
			var bad *queue.InvalidError
			if d != nil || !errors.As(err, &bad) || bad.Field != "URL" || !strings.Contains(bad.Problem, tt.want) {
				t.Errorf("got %v, %v, want %q in an error of the URL", d, err, tt.want)
			}
			for ; err != nil; err = errors.Unwrap(err) {
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("the password is in the error %v", err)
				}
			}
		})
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("got %v, %v, want no file created", files, err)
	}
}

// TestUnusableFile: the error says which file.
func TestUnusableFile(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("This is no database, but a text that is long enough."), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing", "a.db"), dir, text} {
		d, err := dburl.Open("sqlite:"+path, dburl.Options{})
		if d != nil || err == nil || !strings.HasPrefix(err.Error(), "dburl: "+path+": ") {
			t.Errorf("got %v, %v, want an error with %s", d, err, path)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

// TestReadOnly: a handle that only reads can list jobs, and cannot write any.
func TestReadOnly(t *testing.T) {
	for _, b := range backends {
		if b.scheme == dburl.Memory {
			continue
		}
		t.Run(b.scheme, func(t *testing.T) {
			url := b.url(t)
			writer := open(t, url)
			if err := writer.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			enqueue(t, writer, greeting.New("hello"))
			reader, err := dburl.Open(url, dburl.Options{ReadOnly: true, MustExist: true, StatementTimeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			inspector, _ := driver.As[driver.Inspector](reader.Queue)
			if page, _, err := inspector.Jobs(t.Context(), queue.Filter{}); err != nil || len(page) != 1 {
				t.Errorf("got %d jobs, %v, want 1", len(page), err)
			}
			if err := reader.Queue.Enqueue(t.Context(), nil, greeting.New("hello")); err == nil {
				t.Error("the handle has written a job")
			}
		})
	}
}

// TestReadOnlyRole: a URL that asks for a server that can be written to, or for one that cannot, is
// about the server, not about the handle that only reads.
func TestReadOnlyRole(t *testing.T) {
	url := backends[0].url(t)
	for attrs, want := range map[string]string{
		"read-write": "on", "primary": "on", "any": "on", "prefer-standby": "on",
		"read-only": "server is not in hot standby mode", "standby": "server is not in hot standby mode",
	} {
		d, err := dburl.Open(url+"&target_session_attrs="+attrs, dburl.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := d.DB.QueryRowContext(t.Context(), `SHOW transaction_read_only`).Scan(&got); err != nil {
			got = err.Error()
		}
		if got != want && (want == "on" || !strings.Contains(got, want)) {
			t.Errorf("%s at a primary: %s, want %s", attrs, got, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestMustExist: a missing file stays missing.
func TestMustExist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing.db")
	d, err := dburl.Open("sqlite:"+path, dburl.Options{MustExist: true})
	if d != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, %v, want %v", d, err, fs.ErrNotExist)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

// TestApplication: the server knows the connection by the name of the option, and has its limits.
func TestApplication(t *testing.T) {
	d, err := dburl.Open(backends[0].url(t)+"&application_name=shop", dburl.Options{Application: "errand-cli", StatementTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var name, timeout string
	err = d.DB.QueryRowContext(t.Context(), `SELECT current_setting('application_name'), current_setting('statement_timeout')`).Scan(&name, &timeout)
	if err != nil || name != "errand-cli" || timeout != "5s" {
		t.Errorf("got %s, %s, %v, want errand-cli, 5s", name, timeout, err)
	}
}

// TestCancelWait: when a call whose context has ended returns, its statement has ended on the
// server, and the connection works on.
func TestCancelWait(t *testing.T) {
	url := backends[0].url(t)
	d, err := dburl.Open(url, dburl.Options{CancelWait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.DB.SetMaxOpenConns(1)
	other := open(t, url)
	const running = `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'`
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := d.DB.ExecContext(ctx, `SELECT pg_sleep(60)`); err == nil {
			t.Fatal("the statement has slept for a minute")
		}
		var n int
		if err := other.DB.QueryRowContext(t.Context(), running).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d statements still run, %v", n, err)
		}
		if err := d.DB.QueryRowContext(t.Context(), `SELECT 1`).Scan(&n); err != nil {
			t.Errorf("the next statement: %v", err)
		}
	}
}
