package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/errandhq/errand/backend/postgres"
)

// file is a step in goose's format. goose runs each file in one transaction, as errand needs. The
// comments of StatementBegin and StatementEnd make goose send the step as a whole. Down fails,
// because errand offers no steps back. An empty Down would only make goose forget the step.
const file = `-- +goose Up
-- +goose StatementBegin
%s-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$ BEGIN RAISE EXCEPTION 'errand offers no steps back'; END $$;
-- +goose StatementEnd
`

// writeSteps writes each step that is not in dir yet, with the next free number of the folder. Call
// it after you have upgraded errand, and commit what it writes. It never changes a file.
func writeSteps(dir string, steps []postgres.Migration) error {
	for _, step := range steps {
		name := fmt.Sprintf("errand_%04d_%s.sql", step.Version, step.Name)
		found, err := filepath.Glob(filepath.Join(dir, "*_"+name))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			continue
		}
		if err := writeNext(dir, name, fmt.Appendf(nil, file, step.SQL)); err != nil {
			return err
		}
	}
	return nil
}

// writeRoles writes roles, the text of docs/roles.sql with your names in it, unless dir has a file
// with this text. Call it after writeSteps, with the text of the same release.
func writeRoles(dir, roles string) error {
	const name = "errand_roles.sql"
	want := fmt.Appendf(nil, file, roles)
	found, err := filepath.Glob(filepath.Join(dir, "*_"+name))
	if err != nil {
		return err
	}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Equal(text, want) {
			return nil
		}
	}
	return writeNext(dir, name, want)
}

// writeNext writes a file whose name begins with the next free number of dir.
func writeNext(dir, name string, text []byte) error {
	next, err := nextNumber(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d_%s", next, name)), text, 0o600)
}

// nextNumber returns one more than the highest number in dir: 12 after 00011_users.sql.
func nextNumber(dir string) (next int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			continue // not a migration
		}
		next = max(next, n)
	}
	return next + 1, nil
}
