package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// release is the version that the Dockerfile builds, or empty: then the go command knows it.
var release string

// version is what errand version tells.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	// The versions of the tables that this program knows.
	Postgres int `json:"postgres_schema"`
	SQLite   int `json:"sqlite_schema"`
}

func versionCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of its tables",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := a.Accept(); err != nil {
				return err
			}
			v, err := thisVersion()
			if err != nil {
				return err
			}
			return a.WriteOne(v, fmt.Sprintf("errand %s, %s; schema %d on PostgreSQL, %d on SQLite", strings.TrimSpace(v.Version+" "+v.Revision), v.Go, v.Postgres, v.SQLite))
		},
	}
}

func thisVersion() (version, error) {
	v := version{Version: cmp.Or(release, "(devel)"), Go: runtime.Version()}
	onPostgres, err := postgres.Migrations(postgres.Options{})
	if err != nil {
		return v, err
	}
	onSQLite, err := sqlite.Migrations(sqlite.Options{})
	if err != nil {
		return v, err
	}
	v.Postgres, v.SQLite = onPostgres[len(onPostgres)-1].Version, onSQLite[len(onSQLite)-1].Version
	if info, ok := debug.ReadBuildInfo(); ok {
		if release == "" && info.Main.Version != "" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	return v, nil
}
