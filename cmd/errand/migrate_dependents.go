package main

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

// sqliteOthers lists the objects of an SQLite file that may name errand's tables: views, triggers
// and virtual tables with their SQL. errand has none of its own.
const sqliteOthers = `
SELECT type || ' ' || name, sql FROM sqlite_schema
WHERE type IN ('view', 'trigger') OR type = 'table' AND lower(sql) GLOB 'create virtual *'
ORDER BY type, name`

// sqliteReferences lists the foreign keys of a file: the table that has it, and the one it names.
const sqliteReferences = `
SELECT DISTINCT m.name, f."table" FROM sqlite_schema m, pragma_foreign_key_list(m.name) f
WHERE m.type = 'table' AND lower(m.sql) NOT GLOB 'create virtual *'
ORDER BY 1`

// checkDependents returns an error if objects of others depend on errand's tables in an SQLite
// file. SQLite would drop the tables nevertheless: with their triggers, and from under the others.
func checkDependents(ctx context.Context, db queue.DB) error {
	names, err := knownTables(dburl.SQLite)
	if err != nil {
		return err
	}
	isOurs := make(map[string]bool)
	for _, name := range names {
		isOurs[prefixOf(dburl.SQLite)+name] = true
	}
	var found []string
	note := func(object, table string) {
		found = append(found, fmt.Sprintf("%s depends on table %s", object, table))
	}
	err = readPairs(ctx, db, sqliteOthers, func(object, text string) {
		named := namesIn(text)
		if i := slices.IndexFunc(named, func(name string) bool { return isOurs[name] }); i >= 0 {
			note(object, named[i])
		}
	})
	if err != nil {
		return err
	}
	err = readPairs(ctx, db, sqliteReferences, func(table, to string) {
		if to = strings.ToLower(to); isOurs[to] && !isOurs[strings.ToLower(table)] {
			note("table "+table, to)
		}
	})
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return refusedf("nothing was changed: other objects depend on errand's: %s", strings.Join(found, "; "))
	}
	return nil
}

// readPairs calls use for each row of a query with two columns.
func readPairs(ctx context.Context, db queue.DB, query string, use func(a, b string)) error {
	return readRows(ctx, db, query, func(rows *sql.Rows) error {
		var a, b string
		if err := rows.Scan(&a, &b); err != nil {
			return err
		}
		use(a, b)
		return nil
	})
}

// sqlToken matches a comment, a string, a quoted name, or a word of SQLite's SQL, and any other
// character.
var sqlToken = regexp.MustCompile("--[^\n]*" + `|/\*(?s:.*?)(?:\*/|$)` + `|'(?:[^']|'')*'|"(?:[^"]|"")*"` +
	"|`(?:[^`]|``)*`" + `|\[[^\]]*\]|[0-9A-Za-z_\x{80}-\x{10FFFF}][0-9A-Za-z_$\x{80}-\x{10FFFF}]*|\S`)

// namesIn returns the words and quoted names of a statement in lower case, and its strings where
// SQLite takes a string for a table's name: behind certain words, and as an option of a virtual
// table.
func namesIn(text string) (names []string) {
	isVirtual := strings.HasPrefix(strings.ToLower(text), "create virtual ")
	before := ""
	for _, token := range sqlToken.FindAllString(text, -1) {
		if strings.HasPrefix(token, "--") || strings.HasPrefix(token, "/*") {
			continue
		}
		name := strings.ToLower(token)
		if strings.ContainsRune("'\"`[", rune(name[0])) && len(name) > 1 {
			name = name[1 : len(name)-1]
		}
		if token[0] != '\'' || isVirtual || strings.Contains(" from join into update on . ", " "+before+" ") {
			names = append(names, name)
		}
		before = strings.ToLower(token)
	}
	return names
}
