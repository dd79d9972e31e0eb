// Package docs holds the script of the roles, for the command errand. Everything else in this
// folder is read, not built.
package docs

import _ "embed"

// Roles is the text of roles.sql.
//
//go:embed roles.sql
var Roles string

// RolesVersion is the last migration of PostgreSQL that needs new rights, so that the script has to
// run once more after it.
const RolesVersion = 17
