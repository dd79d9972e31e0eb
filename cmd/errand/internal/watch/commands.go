// Package watch has the commands that show what happens: counts, the audit log, and changes of jobs
// while they are made.
package watch

import (
	"github.com/spf13/cobra"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// app is the program, with the actions of these commands as methods.
type app struct{ *cli.App }

// Commands returns errand stats, audit, tail and top.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{app{a}.statsCommand(), app{a}.auditCommand(), app{a}.tailCommand(), app{a}.topCommand()}
}
