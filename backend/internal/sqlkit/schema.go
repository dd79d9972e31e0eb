package sqlkit

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/errandhq/errand/queue"
)

// Migration is one step from nothing to the current tables.
type Migration struct {
	Version int
	Name    string
	SQL     string
}

// Migrations returns the steps in dir, in their order. A file's name is its version and its name,
// such as 0001_jobs.sql. It panics for any other name, because the files are part of the binary.
func Migrations(files embed.FS, dir string) []Migration {
	entries, err := files.ReadDir(dir) // sorted by name
	if err != nil {
		panic(err)
	}
	list := make([]Migration, len(entries))
	for i, f := range entries {
		number, name, _ := strings.Cut(strings.TrimSuffix(f.Name(), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			panic(err)
		}
		list[i] = Migration{version, name, ReadFile(files, path.Join(dir, f.Name()))}
	}
	return list
}

// RecordMigration returns the statement that records in the table that m has run. Each migration
// ends with it. It fails unless the step before m is the last one that has run.
func RecordMigration(m Migration, table string) string {
	if m.Version == 1 {
		return fmt.Sprintf("\nINSERT INTO %s (version, name) VALUES (1, '%s');\n", table, m.Name)
	}
	return fmt.Sprintf(`
-- This fails unless step %[3]d is the last one that has run: the name would be NULL.
INSERT INTO %[1]s (version, name)
SELECT %[2]d, CASE max(version) WHEN %[3]d THEN '%[4]s' END FROM %[1]s;
`, table, m.Version, m.Version-1, m.Name)
}

// ReadFile returns the text of a file, which is part of the binary.
func ReadFile(files embed.FS, name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Statements returns the texts of the files in the folder sql, by their names without ".sql". adapt
// puts the names of the caller's tables into a text.
func Statements(files embed.FS, adapt func(text string) string) map[string]string {
	paths, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		panic(err) // the pattern is malformed
	}
	all := make(map[string]string, len(paths))
	for _, p := range paths {
		all[strings.TrimSuffix(path.Base(p), ".sql")] = adapt(ReadFile(files, p))
	}
	return all
}

// CheckVersion returns a [*queue.SetupError] unless the tables have the version that this program
// needs. migrate is the function that brings them up to date.
func CheckVersion(version, need int, migrate string) error {
	if version < need {
		return &queue.SetupError{Problem: fmt.Sprintf("the tables have version %d and this program needs %d: run %s, or your migration tool with its new steps", version, need, migrate)}
	}
	return CheckNotNewer(version, need)
}

// CheckNotNewer returns a [*queue.SetupError] with [queue.ErrNewer] in it if the tables have a
// version that this program does not know.
func CheckNotNewer(version, known int) error {
	if version <= known {
		return nil
	}
	problem := fmt.Sprintf("the tables have version %d and this program knows %d", version, known)
	return &queue.SetupError{Problem: problem, Err: queue.ErrNewer}
}
