package postgres_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/errandhq/errand/backend/postgres"
)

// The steps as files, for a migration tool that runs each file as one transaction.
func ExampleMigrations() {
	dir, err := os.MkdirTemp("", "migrations")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	steps, err := postgres.Migrations(postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range steps {
		name := filepath.Join(dir, fmt.Sprintf("%04d_errand_%s.sql", s.Version, s.Name))
		if err := os.WriteFile(name, []byte(s.SQL), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(steps[0].Version, steps[0].Name)
	// Output: 1 jobs
}
