package doctor

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops/internal/reader"
)

var update = flag.Bool("update", false, "write golden.txt again")

// TestGolden: golden.txt is what the migrations make. After a new migration run
// go test ./ops/doctor -run TestGolden -update.
func TestGolden(t *testing.T) {
	q, err := postgres.New(postgrestest.Open(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &reader.Server{Tables: q.Tables()}
	list, err := readObjects(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version %d\n", q.Tables().Version)
	for _, o := range list {
		if !o.isUsable {
			t.Errorf("the %s cannot be used", o)
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\n", o.kind, o.name, o.definition)
	}
	if *update {
		if err := os.WriteFile("golden.txt", []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != golden {
		t.Error("the migrations make a different schema: run go test ./ops/doctor -run TestGolden -update")
	}
}
