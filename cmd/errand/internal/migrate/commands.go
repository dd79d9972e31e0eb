// Package migrate has the commands that create, change and remove the tables.
package migrate

import (
	"github.com/spf13/cobra"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// app is the program, with the actions of these commands as methods.
type app struct{ *cli.App }

// Commands returns errand migrate.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{app{a}.migrateCommand()}
}
