package postgres

import (
	"embed"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
)

//go:embed sql
var sqlFiles embed.FS

// statements are the texts of the sql folder by the names of their files, without ".sql" and with
// the schema in place.
type statements map[string]string

func loadStatements(schema string) statements {
	return sqlkit.Statements(sqlFiles, func(text string) string { return inSchema(text, schema) })
}

// locking returns the variants of a statement that changes chosen jobs.
func locking(text string) lockingChange {
	return lockingChange{many: text, one: strings.Replace(text, " SKIP LOCKED\n", "\n", 1)}
}

// withoutPayloadChange returns sql/edit.sql without the line that changes payloads.
func withoutPayloadChange(edit lockingChange) lockingChange {
	const line = "        payload = $14::text::jsonb,\n"
	return lockingChange{many: strings.Replace(edit.many, line, "", 1), one: strings.Replace(edit.one, line, "", 1)}
}

// inSchema replaces the schema errand in the text of one of our files: where it qualifies a name,
// and where it names the notification channel. Neither needs escapes, thanks to sqlkit.CheckName.
func inSchema(text, schema string) string {
	return strings.NewReplacer("'errand'", "'"+schema+"'", "errand.", quoted(schema)+".").Replace(text)
}

func quoted(schema string) string { return `"` + schema + `"` }
