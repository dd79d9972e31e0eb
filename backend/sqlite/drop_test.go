package sqlite_test

import (
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// TestDrop: after any number of steps, DropSQL leaves nothing but what others have made. Migrate
// can begin again.
func TestDrop(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db := open(t, driver, dsn(t))
		execute(t, db, `CREATE TABLE orders (id INTEGER PRIMARY KEY)`)
		o := sqlite.Options{Prefix: "drop_"}
		steps, err := sqlite.Migrations(o)
		if err != nil {
			t.Fatal(err)
		}
		drop, err := sqlite.DropSQL(o)
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(steps) + 1 {
			tx := begin(t, db)
			for _, s := range steps[:n] {
				execute(t, tx, s.SQL)
			}
			commit(t, tx)
			tx = begin(t, db)
			execute(t, tx, drop)
			commit(t, tx)
			if left := value[string](t, db, `SELECT group_concat(name) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'`); left != "orders" {
				t.Errorf("after %d steps this is left: %s", n, left)
			}
		}
		migrate(t, db, o)
		enqueue(t, backend(t, db, o), &queue.Job{Kind: "test"})
		execute(t, db, drop)
	})
}
