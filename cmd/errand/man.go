package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

func manCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a folder",
		Long: `man writes a manual page for each command into the folder, and creates the folder
if it does not exist. The date of the pages is SOURCE_DATE_EPOCH, or else today.`,
		Example: `  errand man ~/.local/share/man/man1 && man errand-jobs-redrive`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.Accept(); err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writeManual(cmd.Root(), args[0])
		},
	}
}

// writeManual writes a page for root, and one for each command beneath it, into dir.
func writeManual(root *cobra.Command, dir string) error {
	root.DisableAutoGenTag = true // it would add the day
	v, err := thisVersion()
	if err != nil {
		return err
	}
	return doc.GenManTree(root, &doc.GenManHeader{Source: "errand " + v.Version, Manual: "Errand Manual"}, dir)
}
