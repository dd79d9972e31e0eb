package doctor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

// golden is what the migrations make, an object a line: its kind, its name and its definition.
// TestGolden says how to write it again after a new migration. The first line is the version.
//
//go:embed golden.txt
var golden string

// object is something in the schema.
type object struct {
	kind, name, definition string
	isUsable               bool
}

func (o object) String() string { return o.kind + " " + o.name }

// readObjects returns what is in the schema, with the schema named errand.
func readObjects(ctx context.Context, s *reader.Server) (list []object, err error) {
	err = s.Rows(ctx, "drift", func(r *sql.Rows) error {
		var o object
		var definition sql.NullString
		err := r.Scan(&o.kind, &o.name, &definition, &o.isUsable)
		schema := s.Tables.Schema
		o.definition = strings.NewReplacer(`"`+schema+`".`, "errand.", schema+".", "errand.", "'"+schema+"'", "'errand'").Replace(definition.String)
		if o.kind == "function" {
			sum := sha256.Sum256([]byte(o.definition))
			o.definition = hex.EncodeToString(sum[:8])
		}
		o.definition = strings.Join(strings.Fields(o.definition), " ")
		list = append(list, o)
		return err
	})
	return list, err
}

// goldenObjects returns the objects that the migrations make, and their version.
func goldenObjects() (version int, list []object) {
	head, rest, _ := strings.Cut(golden, "\n")
	_, _ = fmt.Sscanf(head, "version %d", &version)
	for line := range strings.Lines(rest) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(parts) == 3 {
			list = append(list, object{parts[0], parts[1], parts[2], true})
		}
	}
	return version, list
}

// drift compares the schema with what the migrations make.
func drift(ctx context.Context, d *doctor) (finding, error) {
	var found int
	if err := d.Server.Row(ctx, "schema", &found); err != nil {
		return finding{}, err
	}
	version, wanted := goldenObjects()
	if found != version {
		return finding{level: ops.Skipped, value: fmt.Sprintf("known for migration %d only, the schema has %d", version, found)}, nil
	}
	list, err := readObjects(ctx, d.Server)
	if err != nil {
		return finding{}, err
	}
	there := make(map[string][]object)
	for _, o := range list {
		there[o.String()] = append(there[o.String()], o)
	}
	var worst finding
	known := make(map[string]bool)
	for _, w := range wanted {
		known[w.String()] = true
		if f := compare(w, there[w.String()], d.Server.Tables.Schema, d.Command("migrate", "print", "postgres")); f.level == ops.Fail || f.level == ops.Warn && worst.level == "" {
			worst = f
		}
	}
	for _, o := range list {
		if f := foreign(o, d.Server.Tables.Schema); worst.level == "" && !known[o.String()] {
			worst = f
		}
	}
	if worst.level == "" {
		worst.value = "the schema is as the migrations make it"
	}
	return worst, nil
}

// foreign returns the finding for an object that the migrations do not make; none for one that does
// no harm, such as a function.
func foreign(o object, schema string) finding {
	const refuses = "it may refuse a job that is enqueued, or the outcome of one, which then never settles: "
	on, name, _ := strings.Cut(o.name, ".")
	of := words.Identifier(schema) + "." + on
	f := finding{ops.Warn, fmt.Sprintf("the %s is not errand's: %.200s", o, o.definition), ""}
	switch {
	case o.kind == "constraint":
		f.advice = refuses + "ALTER TABLE " + of + " DROP CONSTRAINT " + words.Identifier(name) + ", unless you need it"
	case o.kind == "index" && strings.HasPrefix(o.definition, "CREATE UNIQUE "):
		f.advice = refuses + "drop it, unless you need it"
	case o.kind == "rule":
		f.advice = "it may change what a statement does: DROP RULE " + words.Identifier(name) + " ON " + of + ", unless you need it"
	case o.kind == "reference":
		f.advice = "it may refuse that jobs are deleted or pruned: drop that foreign key of your table, unless you need it"
	case o.kind == "column" && strings.HasSuffix(o.definition, " NOT NULL"):
		f.advice = "it has no default, so it refuses each job that is enqueued: ALTER TABLE " + of + " DROP COLUMN " + words.Identifier(name)
	case o.kind == "column":
		f.advice = "errand does not need it: drop it, unless you need it"
	case o.kind == "index":
		f.advice = "an index that errand does not need slows every call down: drop it, unless you need it"
	default:
		return finding{}
	}
	return f
}

// compare compares an object with what there is of its name. print is the command that prints the
// migrations.
func compare(want object, there []object, schema, print string) finding {
	inSchema := func(text string) string { return strings.ReplaceAll(text, "errand.", `"`+schema+`".`) }
	again := "make it again by the statement of the migration that makes it, which " + print + " prints"
	if want.kind == "index" {
		again = inSchema(strings.Replace(want.definition, "INDEX ", "INDEX CONCURRENTLY ", 1))
	}
	if len(there) == 0 {
		return finding{ops.Fail, fmt.Sprintf("the %s is missing", want), again}
	}
	for _, o := range there {
		switch {
		case o.definition == want.definition && o.isUsable:
			return finding{}
		case o.definition == want.definition:
			return broken(want, inSchema, again)
		}
	}
	if want.kind == "options" {
		return compareOptions(want, there[0], inSchema("errand."+want.name))
	}
	return finding{ops.Warn, fmt.Sprintf("the %s is different: %.200s", want, there[0].definition), fmt.Sprintf("change it to what the migrations say: %.200s", want.definition)}
}

// compareOptions names the options of a table that differ, and the statements that change them
// back.
func compareOptions(want, there object, table string) finding {
	parse := func(definition string) (names []string, values map[string]string) {
		values = make(map[string]string)
		for option := range strings.SplitSeq(definition, ", ") {
			if name, value, ok := strings.Cut(option, "="); ok {
				names, values[name] = append(names, name), value
			}
		}
		return names, values
	}
	wantNames, wanted := parse(want.definition)
	foundNames, found := parse(there.definition)
	var differ, set, reset, advice []string
	for _, name := range wantNames {
		if found[name] != wanted[name] {
			differ = append(differ, fmt.Sprintf("%s is %s", name, cmp.Or(found[name], "not set")))
			set = append(set, name+" = "+wanted[name])
		}
	}
	for _, name := range foundNames {
		if _, ok := wanted[name]; !ok {
			differ = append(differ, fmt.Sprintf("%s is %s", name, found[name]))
			reset = append(reset, name)
		}
	}
	if len(set) > 0 {
		advice = append(advice, fmt.Sprintf("ALTER TABLE %s SET (%s)", table, strings.Join(set, ", ")))
	}
	if len(reset) > 0 {
		advice = append(advice, fmt.Sprintf("ALTER TABLE %s RESET (%s)", table, strings.Join(reset, ", ")))
	}
	return finding{ops.Warn, fmt.Sprintf("options of the table %s are different: %s", want.name, strings.Join(differ, ", ")), strings.Join(advice, "; ")}
}

// broken returns the finding for an object that is there and is not in use.
func broken(o object, inSchema func(string) string, again string) finding {
	switch o.kind {
	case "index":
		return finding{ops.Fail, fmt.Sprintf("the %s is INVALID", o), inSchema("DROP INDEX CONCURRENTLY errand." + o.name + "; " + again)}
	case "trigger":
		return finding{ops.Warn, fmt.Sprintf("the %s is disabled", o), "ALTER TABLE " + inSchema("errand.jobs") + " ENABLE TRIGGER ALL"}
	}
	return finding{ops.Warn, fmt.Sprintf("the %s is not validated", o), "ALTER TABLE … VALIDATE CONSTRAINT"}
}
