package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestComments: no comment of a Go or SQL file has an unplain word. Tests and examples do not
// count.
func TestComments(t *testing.T) {
	files := 0
	for _, root := range []string{"../queue", "../engine", "../middleware", "../backend", "../internal", "../lab", "../ops", "../gateway"} {
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

const maxColumnsSQL = 120 // of a line of SQL

// uncheckedColumns are folders whose comments may be long: what tools have written, what databases
// have run already, and the guide's format.
var uncheckedColumns = regexp.MustCompile(`/(\.git|generated|migrations|testdata|node_modules)$`)

// TestCommentColumns: no line that is only a comment is longer than maxColumns, or maxColumnsSQL in
// SQL, where a tab counts as one. Tests and examples count, but for the output that they expect.
func TestCommentColumns(t *testing.T) {
	lines := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if uncheckedColumns.MatchString(filepath.ToSlash(path)) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		begin, limit := commentsOf(path)
		if begin == "" || entry.IsDir() {
			return nil
		}
		isOutput := false
		for line := range strings.Lines(read(t, path)) {
			comment, isComment := strings.CutPrefix(strings.TrimSpace(line), begin)
			isOutput = isComment && (isOutput || expectedOutput.MatchString(comment))
			if !isComment || isOutput {
				continue
			}
			lines++
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); n > limit {
				t.Errorf("%s: %d columns, want at most %d: %s", path, n, limit, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if lines < 5000 {
		t.Errorf("found only %d lines of comments", lines)
	}
}

// expectedOutput matches the comment that begins the output of an Example.
var expectedOutput = regexp.MustCompile(`(?i)^\s*(unordered )?output:`)

// commentsOf returns how comments begin in a file, "" if it is not of a checked language, and how
// long they may be.
func commentsOf(path string) (begin string, limit int) {
	switch filepath.Ext(path) {
	case ".go":
		return "//", maxColumns
	case ".lua":
		return "--", maxColumns
	case ".sql":
		return "--", maxColumnsSQL
	}
	return "", 0
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
