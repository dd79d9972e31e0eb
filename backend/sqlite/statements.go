package sqlite

import (
	"embed"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
)

//go:embed sql
var sqlFiles embed.FS

// statements are the texts of the sql folder by the names of their files, without ".sql" and with
// the prefix in place.
type statements map[string]string

func loadStatements(prefix string) statements {
	return sqlkit.Statements(sqlFiles, func(text string) string { return withPrefix(onlyStatement(text), prefix) })
}

// hot returns the statements that each connection keeps prepared: the ones that workers and
// enqueuers run constantly.
func (s statements) hot() []string {
	return []string{
		s["enqueue_one"], s["enqueue_alike"], s["enqueue"], s["fence"], s["next_priority"], s["due"], s["take"], s["groups"], s["heads"], s["extend"],
		s["running"], s["next_group"], s["next_priority_group"], s["due_group"],
		s["settle"], s["settle_done"], withoutReturning(s["settle_done"]), s["settle_drop"], withoutReturning(s["settle_drop"]),
		s["expired"], s["sleep"], s["last_id"], s["bump_id"], s["prune"], s["write_stats"],
	}
}

// withoutReturning returns a statement without its RETURNING clause.
func withoutReturning(statement string) string {
	changes, _, _ := strings.Cut(statement, "\nRETURNING")
	return changes
}

// onlyStatement returns the statement of a file. It leaves out comment lines, which SQLite would
// parse each time, and what follows the statement: glebarez/go-sqlite takes it for another one.
func onlyStatement(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			b.WriteString(line)
		}
	}
	return strings.TrimSuffix(strings.TrimSpace(b.String()), ";")
}

// withPrefix replaces errand_, which begins each name in our SQL files, with prefix. checkPrefix
// has made sure that the prefix needs no quotes.
func withPrefix(text, prefix string) string {
	return strings.ReplaceAll(text, defaultPrefix, prefix)
}
