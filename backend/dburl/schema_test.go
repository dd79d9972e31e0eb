package dburl_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestSchemas: queues in schemas of one database, named by the URL or the option, know nothing of
// each other's jobs. A search_path does not count, and is kept for the program's own tables.
func TestSchemas(t *testing.T) {
	dsn := postgrestest.EmptyDSN(t)
	tests := []struct {
		params, option, want string
	}{
		{"", "", "errand"},
		{"&schema=orders", "", "orders"},
		{"", "Orders", "Orders"},
		{"&schema=select", "select", "select"},
		{"&schema=user&search_path=pg_catalog", "", "user"},
	}
	for _, tt := range tests {
		d, err := dburl.Open(dsn+tt.params, dburl.Options{Schema: tt.option})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		enqueue(t, d, greeting.New("to "+tt.want))
		inspector, _ := driver.As[driver.Inspector](d.Queue)
		page, _, err := inspector.Jobs(t.Context(), queue.Filter{})
		if err != nil || len(page) != 1 || string(page[0].Payload) != `"to `+tt.want+`"` {
			t.Errorf("%s: got %v, %v, want its own job", tt.want, page, err)
		}
		suffix := ", schema " + tt.want
		if tt.want == "errand" {
			suffix = ""
		}
		if d.Schema != tt.want || strings.Contains(d.Description, ", schema ") != (suffix != "") || !strings.HasSuffix(d.Description, suffix) {
			t.Errorf("got schema %s, %s, want %s", d.Schema, d.Description, tt.want)
		}
		var path string
		if err := d.DB.QueryRowContext(t.Context(), `SHOW search_path`).Scan(&path); err != nil || (path == "pg_catalog") != strings.Contains(tt.params, "search_path") {
			t.Errorf("%s: search_path is %q, %v", tt.want, path, err)
		}
	}
}

// TestSearchPath: however a search_path is spelled, it is no answer to where the tables are. With a
// schema besides it is no question.
func TestSearchPath(t *testing.T) {
	service := filepath.Join(t.TempDir(), "service.conf")
	if err := os.WriteFile(service, []byte("[shop]\nsearch_path=orders\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGSERVICEFILE", service)
	for _, params := range []string{
		"search_path=orders",
		"search_path=orders%2Cpublic",
		"search_path=",
		"Search_Path=orders",
		"%73earch_path=orders",
		"options=-c%20search_path%3Dorders",
		"options=-c+search_path%3Dorders",
		"options=-csearch_path%3Dorders",
		"options=-c%20statement_timeout%3D5s%20-c%20search_path%3Dorders",
		"options=--search_path%3Dorders",
		"options=--search-path%3Dorders",
		"options=-c%20SEARCH-PATH%3Dorders",
		"options=-c%20s%5Cearch_path%3Dorders",
		"service=shop",
		"PGOPTIONS",
	} {
		t.Run(params, func(t *testing.T) {
			if params == "PGOPTIONS" {
				t.Setenv(params, "-c search_path=orders")
				params = "application_name=shop"
			}
			url := "postgres://db.test/shop?" + params
			d, err := dburl.Open(url, dburl.Options{})
			var bad *queue.InvalidError
			if d != nil || !errors.As(err, &bad) || bad.Field != "Schema" || !strings.Contains(bad.Problem, "search_path") {
				t.Errorf("got %v, %v, want an error that names search_path", d, err)
			}
			for _, known := range []struct {
				url string
				o   dburl.Options
			}{{url + "&schema=errand", dburl.Options{}}, {url, dburl.Options{Schema: "orders"}}} {
				d, err := dburl.Open(known.url, known.o)
				if err != nil {
					t.Fatal(err)
				}
				d.Close()
			}
		})
	}
}

// TestBadSchemas: a name that is not taken, or that the URL contradicts, is an error and not
// another schema. Databases without schemas refuse one.
func TestBadSchemas(t *testing.T) {
	const shop = "postgres://db.test/shop"
	for _, tt := range []struct{ url, option, want string }{
		{shop + "?schema=a&schema=b", "", "more than once"},
		{shop + "?schema=", "", "no value"},
		{shop + "?schema=a", "b", `is "a"`},
		{shop + "?schema=errand", "b", `is "errand"`},
		{shop, `or"ders`, "letters, digits and underscores"},
		{shop, "or'ders", "letters, digits and underscores"},
		{shop, "my orders", "letters, digits and underscores"},
		{shop, "größe", "letters, digits and underscores"},
		{shop, "a.b", "letters, digits and underscores"},
		{shop, "a;b", "letters, digits and underscores"},
		{shop, "1a", "letters, digits and underscores"},
		{shop + "?schema=my%20orders", "", "letters, digits and underscores"},
		{shop, strings.Repeat("a", 49), "at most 48"},
		{"sqlite:" + filepath.Join(t.TempDir(), "a.db"), "a", "SQLite has no schemas"},
		{"redis://db.test", "a", "namespace"},
		{"rediss+sentinel://db.test/main", "a", "namespace"},
		{"memory:", "a", "no schemas"},
	} {
		d, err := dburl.Open(tt.url, dburl.Options{Schema: tt.option})
		var bad *queue.InvalidError
		if d != nil || !errors.As(err, &bad) || bad.Field != "Schema" || !strings.Contains(bad.Problem, tt.want) {
			t.Errorf("%s, %q: got %v, %v, want %q in an error of the schema", tt.url, tt.option, d, err, tt.want)
		}
	}
}
