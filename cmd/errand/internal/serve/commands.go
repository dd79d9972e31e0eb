// Package serve has the commands that serve HTTP: the dashboard and the gateway.
package serve

import (
	"github.com/spf13/cobra"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// app is the program, with the actions of these commands as methods.
type app struct{ *cli.App }

// Commands returns errand web and errand gateway.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{app{a}.webCommand(), app{a}.gatewayCommand()}
}
