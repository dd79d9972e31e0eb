#!/bin/sh
# SQLite ignores what follows the last semicolon of a statement if it is white space or a comment,
# and so do other drivers for Go. github.com/glebarez/go-sqlite runs it as one more statement: a
# query that ends with a semicolon and the end of a line fails with "bad parameter or other API
# misuse (21)", while Exec of the same text works.
# errand: its statements have no semicolon; TestStatementsEnd in backend/sqlite.
# It needs go in PATH, and the Go module proxy.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'EOM'
module finding

go 1.26
EOM
cat >main.go <<'EOM'
package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	_ "github.com/glebarez/go-sqlite"
)

func main() {
	db, err := sql.Open("sqlite", "test.db")
	if err != nil {
		panic(err)
	}
	var version string
	if err := db.QueryRow("SELECT sqlite_version()").Scan(&version); err != nil {
		panic(err)
	}
	fmt.Println("github.com/glebarez/go-sqlite v1.23.0, SQLite", version)
	seen := true
	for _, text := range []string{"SELECT 1", "SELECT 1;", "SELECT 1;\n", "SELECT 1; -- one"} {
		rows, err := db.Query(text)
		if err == nil {
			for rows.Next() {
			}
			err = errors.Join(rows.Err(), rows.Close())
		}
		_, inExec := db.Exec(text)
		fmt.Printf("%-18q Query: %v; Exec: %v\n", text, err, inExec)
		_, rest, _ := strings.Cut(text, ";")
		seen = seen && (err != nil) == (rest != "") && inExec == nil
	}
	if !seen {
		fmt.Println("changed: not only a query with text after its semicolon fails")
		os.Exit(1)
	}
}
EOM
go get github.com/glebarez/go-sqlite@v1.23.0 2>/dev/null
go run .
