package doctor

import (
	"fmt"
	"strings"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

// foreign returns the finding for an object that the migrations do not make; none for one that does
// no harm, such as a function.
func foreign(o object, s *reader.Server) finding {
	const refuses = "it may refuse a job that is enqueued, or the outcome of one, which then never settles: "
	_, own, _ := strings.Cut(o.name, ".")
	name, table := words.Identifier(own), s.Table(o.table)
	f := finding{ops.Warn, fmt.Sprintf("the %s is not errand's: %.200s", o, o.definition), ""}
	switch {
	case o.kind == "constraint":
		f.advice = refuses + "ALTER TABLE " + table + " DROP CONSTRAINT " + name + ", unless you need it"
	case o.kind == "domain":
		domain, _, _ := strings.Cut(o.name, ".")
		f.advice = refuses + "ALTER DOMAIN " + s.Table(domain) + " DROP CONSTRAINT " + name + ", unless you need it"
	case o.kind == "index" && strings.HasPrefix(o.definition, "CREATE UNIQUE "):
		f.advice = refuses + "drop it, unless you need it"
	case o.kind == "rule" && o.isUsable:
		f.advice = "it may change what a statement does: DROP RULE " + name + " ON " + table + ", unless you need it"
	case o.kind == "trigger" && o.isUsable && o.table != "jobs": // the check table finds those
		f.value = fmt.Sprintf("the %s is not errand's", o)
		f.advice = refuses + "DROP TRIGGER " + name + " ON " + table + ", unless you need it"
	case o.kind == "reference":
		f.advice = "it may refuse that jobs are deleted or pruned: drop that foreign key of your table, unless you need it"
	case o.kind == "child":
		f.value = fmt.Sprintf("the table %s is a child of %s, so its rows are in it, too", o.name, table)
		f.advice = "workers run rows of a child of jobs, and no index or key is theirs: ALTER TABLE " + o.name + " NO INHERIT " + table
	case o.kind == "unlogged":
		f.level, f.value = ops.Fail, "the table "+o.name+" is UNLOGGED"
		f.advice = "a crash of the server empties it, and a standby has nothing of it: ALTER TABLE " + table + " SET LOGGED"
	case o.kind == "row security" && o.table != "jobs": // as for triggers
		f.value = "the table " + o.name + " has row security"
		f.advice = "workers may not see all rows: ALTER TABLE " + table + " DISABLE ROW LEVEL SECURITY"
	case o.kind == "column" && strings.HasSuffix(o.definition, " NOT NULL"):
		f.advice = "it has no default, so it refuses each row that errand inserts: ALTER TABLE " + table + " DROP COLUMN " + name
	case o.kind == "column":
		f.advice = "errand does not need it: drop it, unless you need it"
	case o.kind == "index":
		f.advice = "an index that errand does not need slows every call down: drop it, unless you need it"
	default:
		return finding{}
	}
	return f
}
