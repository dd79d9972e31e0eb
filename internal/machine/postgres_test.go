//go:build unix

package machine

import (
	"os"
	"path/filepath"
	"testing"
)

// install makes a directory with the programs in it.
func install(t *testing.T, dir string, programs ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPostgresBin(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	half := install(t, filepath.Join(root, "half"), "postgres")
	path := install(t, filepath.Join(root, "path"), "postgres", "initdb")
	install(t, filepath.Join(root, "lib/9.6/bin"), "postgres", "initdb")
	newest := install(t, filepath.Join(root, "lib/18/bin"), "postgres", "initdb")
	install(t, filepath.Join(root, "lib/19/bin"), "psql")
	patterns := []string{filepath.Join(root, "lib/*/bin")}
	linked := filepath.Join(root, "linked")
	if err := os.Mkdir(linked, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.Symlink(filepath.Join(newest, name), filepath.Join(linked, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name           string
		path, patterns []string
		want           string
	}{
		{"PATH comes first", []string{half, path}, patterns, path},
		{"links are followed", []string{linked, path}, nil, newest},
		{"the newest that is whole", []string{half}, patterns, newest},
		{"none", []string{half}, []string{filepath.Join(root, "other*")}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := find(test.path, test.patterns)
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}
