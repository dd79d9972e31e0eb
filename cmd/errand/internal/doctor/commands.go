// Package doctor has the commands that examine a queue and its jobs.
package doctor

import (
	"github.com/spf13/cobra"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// app is the program, with the actions of these commands as methods.
type app struct{ *cli.App }

// Commands returns errand doctor and errand explain.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{app{a}.doctorCommand(), app{a}.explainCommand()}
}
