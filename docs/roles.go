// Package docs holds the script of the roles, for the command errand. Everything else in this
// folder is read, not built.
package docs

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed roles.sql
var roles string

// RolesVersion is the last migration of PostgreSQL that needs new rights, so that the script has to
// run once more after it.
const RolesVersion = 17

// RolesIn returns the text of roles.sql for the tables in a schema. The roles of the schema orders
// are orders_worker and so on, so that services with schemas of their own share none.
func RolesIn(schema string) string {
	if schema == defaultSchema {
		return roles
	}
	_, script, _ := strings.Cut(roles, "\n\n") // behind the comment that says how to change the names
	script = roleName.ReplaceAllStringFunc(script, func(name string) string {
		name = schema + strings.TrimPrefix(name, defaultSchema)
		if name != strings.ToLower(name) {
			name = `"` + name + `"`
		}
		return name
	})
	lines := strings.Split(script, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "--") {
			lines[i] = schemaName.ReplaceAllString(line, `"`+schema+`"`)
		}
	}
	return fmt.Sprintf(rolesHead, schema) + strings.Join(lines, "\n")
}

const defaultSchema = "errand"

var (
	schemaName = regexp.MustCompile(`\b` + defaultSchema + `\b`)
	roleName   = regexp.MustCompile(`\b` + defaultSchema + `_(migrator|enqueuer|worker|observer|operator)\b`)
)

const rolesHead = `-- Roles for errand's tables in the schema %[1]s: docs/roles.sql, which explains them, with names of their own. Run it in
-- one transaction after the migrations, and once more with each release whose migrations need new rights:
--
--     errand migrate print postgres --schema %[1]s --roles | psql -X -1 -v ON_ERROR_STOP=1 "$DATABASE_URL"

`
