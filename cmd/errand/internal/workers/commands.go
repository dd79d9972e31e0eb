// Package workers has the commands on workers.
package workers

import (
	"github.com/spf13/cobra"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// app is the program, with the actions of these commands as methods.
type app struct{ *cli.App }

// Commands returns errand workers.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{app{a}.workersCommand()}
}
