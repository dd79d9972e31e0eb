// Package schedules has the commands on schedules.
package schedules

import (
	"github.com/spf13/cobra"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// app is the program, with the actions of these commands as methods.
type app struct{ *cli.App }

// Commands returns errand schedules.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{app{a}.schedulesCommand()}
}
