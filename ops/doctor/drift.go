package doctor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
)

// golden is what the migrations make, an object a line: its kind, its name and its definition.
// TestGolden says how to write it again after a new migration. The first line is the version.
//
//go:embed golden.txt
var golden string

// object is something in the schema.
type object struct {
	kind, name, definition string
	table                  string // that it is about; "" for a function or a type
	isUsable               bool
}

func (o object) String() string { return o.kind + " " + o.name }

// readObjects returns what is in the schema, with the schema named errand.
func readObjects(ctx context.Context, s *reader.Server) (list []object, err error) {
	err = s.Rows(ctx, "drift", func(r *sql.Rows) error {
		var o object
		var definition sql.NullString
		err := r.Scan(&o.kind, &o.name, &definition, &o.table, &o.isUsable)
		o.definition = inErrand(o.kind, definition.String, s.Tables.Schema)
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

// inErrand returns a definition with the schema named errand. The migrations quote its name in the
// bodies of functions. The same word without quotes may be an alias there, such as jobs.
func inErrand(kind, definition, schema string) string {
	if kind == "function" {
		return strings.NewReplacer(`"`+schema+`".`, "errand.", "pg_notify('"+schema+"'", "pg_notify('errand'").Replace(definition)
	}
	return regexp.MustCompile(`"?\b`+schema+`"?\.`).ReplaceAllLiteralString(definition, "errand.")
}

// goldenObjects returns the objects that the migrations make, and their version.
func goldenObjects() (version int, list []object) {
	head, rest, _ := strings.Cut(golden, "\n")
	_, _ = fmt.Sscanf(head, "version %d", &version)
	for line := range strings.Lines(rest) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(parts) == 3 {
			list = append(list, object{kind: parts[0], name: parts[1], definition: parts[2], isUsable: true})
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
		if f := compare(w, there[w.String()], d.Server, d.Command("migrate", "print", "postgres")); f.level == ops.Fail || f.level == ops.Warn && worst.level == "" {
			worst = f
		}
	}
	for _, o := range list {
		isErrands := o.table == "" || known["options "+o.table] // and not of a table that somebody has added
		if worst.level == "" && isErrands && !known[o.String()] {
			worst = foreign(o, d.Server)
		}
	}
	if worst.level == "" {
		worst.value = "the schema is as the migrations make it"
	}
	return worst, nil
}

// compare compares an object with what there is of its name. print is the command that prints the
// migrations.
func compare(want object, there []object, s *reader.Server, print string) finding {
	inSchema := func(text string) string { return strings.ReplaceAll(text, "errand.", s.Table("")) }
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
			return broken(want, o.table, inSchema, again)
		}
	}
	if want.kind == "options" {
		return compareOptions(want, there[0], inSchema("errand."+want.name))
	}
	if want.kind == "function" {
		return finding{ops.Warn, fmt.Sprintf("the %s is different", want), again}
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

// broken returns the finding for an object of a table that is there and is not in use.
func broken(o object, table string, inSchema func(string) string, again string) finding {
	_, name, _ := strings.Cut(o.name, ".")
	table = "ALTER TABLE " + inSchema("errand."+table)
	switch o.kind {
	case "index":
		return finding{ops.Fail, fmt.Sprintf("the %s is INVALID", o), inSchema("DROP INDEX CONCURRENTLY errand." + o.name + "; " + again)}
	case "trigger":
		return finding{ops.Warn, fmt.Sprintf("the %s is disabled", o), table + " ENABLE TRIGGER " + name}
	}
	return finding{ops.Warn, fmt.Sprintf("the %s is not validated", o), table + " VALIDATE CONSTRAINT " + name}
}
