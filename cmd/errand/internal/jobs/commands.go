// Package jobs has the commands that enqueue, list, show and change jobs.
package jobs

import (
	"github.com/spf13/cobra"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// app is the program, with the actions of these commands as methods.
type app struct{ *cli.App }

// Commands returns errand enqueue and errand jobs.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{app{a}.enqueueCommand(), app{a}.jobsCommand()}
}
