package words

import "strings"

// Literal quotes a text for SQL.
func Literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Identifier quotes a name for SQL.
func Identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
