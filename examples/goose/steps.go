package main

import (
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
		next, err := nextNumber(dir)
		if err != nil {
			return err
		}
		name = fmt.Sprintf("%05d_%s", next, name)
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, file, step.SQL), 0o600); err != nil {
			return err
		}
	}
	return nil
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
