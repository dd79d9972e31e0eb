package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestComments: no comment of a Go or SQL file has an unplain word. Tests and examples do not
// count.
func TestComments(t *testing.T) {
	files := 0
	for _, root := range []string{"../queue", "../middleware", "../backend", "../internal", "../lab", "../ops", "../gateway"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			var comments []string
			switch {
			case strings.HasSuffix(path, "_test.go"):
				return nil
			case strings.HasSuffix(path, ".go"):
				comments, err = goComments(path)
			case strings.HasSuffix(path, ".sql"):
				comments = sqlComments(read(t, path))
			default:
				return nil
			}
			files++
			for _, c := range comments {
				for _, word := range unplain.FindAllString(c, -1) {
					t.Errorf("%s: %q", path, word)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 200 {
		t.Errorf("found only %d files", files)
	}
}

func goComments(path string) (comments []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, group := range file.Comments {
		comments = append(comments, group.Text())
	}
	return comments, nil
}

func sqlComments(text string) (comments []string) {
	for line := range strings.Lines(text) {
		if _, comment, found := strings.Cut(line, "--"); found {
			comments = append(comments, comment)
		}
	}
	return comments
}
