package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// meansZero are the flags that may be given as 0.
var meansZero = []string{
	"doctor --backlog-fail", "doctor --backlog-warn", // their help says what it means
	"enqueue --delay", "enqueue --priority", "gateway --drain-wait",
	"jobs cancel --min-attempts", "jobs delete --min-attempts", "jobs list --min-attempts",
	"jobs redrive --min-attempts", "jobs reschedule --min-attempts", // all jobs have been run so often
	"migrate print --after",
	"queues limit --group-rate-burst", "queues limit --per-group", "queues limit --rate-burst", "queues limit --running", "queues limit --share",
}

// TestGiven: of each command, each flag without a value is an error that names the flag, and so is
// an argument without one.
func TestGiven(t *testing.T) {
	var found []string
	root := func() *cobra.Command { return newRoot(&cli.App{Out: io.Discard, Err: io.Discard}) }
	for _, cmd := range leaves(root()) {
		name := strings.TrimPrefix(cmd.CommandPath(), "errand ")
		if err := cmd.Root().PersistentPreRunE(cmd, []string{"x", ""}); err == nil || err.Error() != "argument 2 is empty" {
			t.Errorf("%s x '': %v", name, err)
		}
		cmd.InheritedFlags() // adds them
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			flag := "--" + f.Name
			fresh, _, err := root().Find(strings.Fields(name))
			if err != nil {
				t.Fatal(err)
			}
			switch err := parseZero(t, fresh, f); {
			case err == nil:
				found = append(found, name+" "+flag)
			case !strings.Contains(err.Error(), flag):
				t.Errorf("%s %s: the error does not name the flag: %v", name, flag, err)
			}
		})
	}
	slices.Sort(found)
	if !slices.Equal(found, meansZero) {
		t.Errorf("these may be given as 0:\n%q\nwant\n%q", found, meansZero)
	}
}

// leaves returns the commands that do something.
func leaves(cmd *cobra.Command) (list []*cobra.Command) {
	if !cmd.HasSubCommands() {
		return []*cobra.Command{cmd}
	}
	for _, c := range cmd.Commands() {
		list = append(list, leaves(c)...)
	}
	return list
}

// parseZero gives a flag the value that its type has if it is not given.
func parseZero(t *testing.T, cmd *cobra.Command, f *pflag.Flag) error {
	zero, ok := map[string]string{
		"string": "", "stringSlice": "", "stringToString": "", "int": "0", "int32": "0", "int64": "0", "duration": "0s",
		"time": "0001-01-01T00:00:00Z", "JOBS/TIME": "",
		"bool": "no", // false is no value that a filter could miss
	}[f.Value.Type()]
	if !ok {
		t.Errorf("--%s is a %s: what does it say if it is empty?", f.Name, f.Value.Type())
	}
	if err := cmd.ParseFlags([]string{"--" + f.Name + "=" + zero}); err != nil {
		return err
	}
	return cmd.Root().PersistentPreRunE(cmd, nil)
}
