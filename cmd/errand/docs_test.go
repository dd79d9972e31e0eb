package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

const docsPage = "../../docs/command-line.md"

// TestDocsPage: docs/command-line.md has each command as it is. With UPDATE=1 the test writes it.
func TestDocsPage(t *testing.T) {
	before, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- What follows is written by UPDATE=1 go test ./cmd/errand -->\n"
	prose, _, found := strings.Cut(string(before), mark)
	if !found {
		t.Fatalf("%s has no line %s", docsPage, mark)
	}
	root := newRoot(&cli.App{Out: io.Discard, Err: io.Discard})
	page := prose + mark + "\n" + globalFlags(root) + commandTexts(root)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(docsPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != string(before) {
		t.Errorf("%s is not current: run UPDATE=1 go test -run TestDocsPage in cmd/errand", docsPage)
	}
}

func globalFlags(root *cobra.Command) string {
	return "## Flags of each command\n\n```\n" + usages(root.PersistentFlags()) + "```\n"
}

// commandTexts returns a section for each command that does something.
func commandTexts(cmd *cobra.Command) string {
	var b strings.Builder
	if cmd.HasParent() && !cmd.HasSubCommands() {
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s.\n", cmd.CommandPath(), cmd.Short)
		if cmd.Long != "" {
			fmt.Fprintf(&b, "\n%s\n", cmd.Long)
		}
		fmt.Fprintf(&b, "\n    %s\n", cmd.UseLine())
		if cmd.Example != "" {
			fmt.Fprintf(&b, "\nExamples:\n\n%s\n", cmd.Example)
		}
		if flags := ownFlags(cmd); flags != "" {
			fmt.Fprintf(&b, "\nFlags:\n\n%s", flags)
		}
		b.WriteString("```\n")
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "completion" {
			b.WriteString(commandTexts(c))
		}
	}
	return b.String()
}

// ownFlags returns the flags that only this command has.
func ownFlags(cmd *cobra.Command) string {
	own := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			own.AddFlag(f)
		}
	})
	return usages(own)
}

// usages returns a line for each flag, without what each flag that is set or not may have as well.
func usages(flags *pflag.FlagSet) string {
	const more = "[=true|false]"
	return strings.ReplaceAll(flags.FlagUsages(), more, strings.Repeat(" ", len(more)))
}
