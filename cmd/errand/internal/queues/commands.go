// Package queues has the commands on queues and on kinds of jobs.
package queues

import (
	"github.com/spf13/cobra"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// app is the program, with the actions of these commands as methods.
type app struct{ *cli.App }

// Commands returns errand queues and errand kinds.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{app{a}.queuesCommand(), app{a}.kindsCommand()}
}
