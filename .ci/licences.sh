#!/usr/bin/env bash
# Checks that everything that the packages and tests of the modules here link, on Linux, macOS or
# Windows, has one of the licences below. It reads the licence files beside a linked package and above
# it, up to its module's root: there must be one, and each text must be known. Prints how many modules
# have which licence, and fails if one is unknown or not allowed. (go-licenses 1.6 does not know some
# of these texts, and takes a quarter of an hour without a network.)
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off

# licence FILE: by its words.
licence() {
	case $(tr '[:upper:][:space:]' '[:lower:] ' <"$1" | tr -s ' ') in
	*"mozilla public license"*"version 2.0"*) echo MPL-2.0 ;;
	*"gnu general public license"* | *"gnu lesser general public license"* | *"gnu affero"*) echo GPL ;;
	*"apache license"*"version 2.0"*) echo Apache-2.0 ;;
	*"permission is hereby granted, free of charge, to any person obtaining a copy"*) echo MIT ;;
	*"redistribution and use in source and binary forms"*"neither the name"*) echo BSD-3-Clause ;;
	*"redistribution and use in source and binary forms"*) echo BSD-2-Clause ;;
	*"permission to use, copy, modify, and"*"distribute this software for any purpose"*) echo ISC ;;
	*"free and unencumbered software released into the public domain"*) echo Unlicense ;;
	*"dedicated to the public domain"*) echo public-domain ;; # SQLite
	*) echo unknown ;;
	esac
}

# linked: a line for each directory that has a linked package, and those above it: the module, the directory.
# A module of this repository without a licence file has that of the repository:
# https://go.dev/ref/mod#vcs-license.
linked() {
	local mod os
	for mod in $(find . -name go.mod); do
		for os in linux darwin windows; do
			(cd "$(dirname "$mod")" && GOOS=$os go list -deps -test -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}} {{$.Dir}}{{end}}{{end}}' ./...)
		done
	done | grep -v '^github.com/errandhq/errand/' | sort -u | while read -r module root dir; do
		while echo "$module $dir" && [ "$dir" != "$root" ]; do
			dir=$(dirname "$dir")
		done
	done | sort -u
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
linked >"$dir/linked"
cut -d' ' -f1 "$dir/linked" | sort -u >"$dir/modules"
while read -r module path; do
	find "$path" -maxdepth 1 -type f | grep -iE '/(un)?(licen[cs]e|copying)[^/]*$' | grep -ivE '\.(go|docs)$|-logo$|-3rd-party' | while read -r file; do
		echo "$module $(licence "$file") $file"
	done || true
done <"$dir/linked" >"$dir/found"

failed=0
complain() {
	echo "FAIL $*"
	failed=1
}
while read -r module kind file; do
	case "$kind $module" in
	unknown* | GPL*) complain "$module: $kind: $file" ;;
	# Copyleft for their own files; errand's packages link none of them but rapid, for tests.
	"MPL-2.0 pgregory.net/rapid") ;;        # backend/backendtest, which no program links
	"MPL-2.0 github.com/hashicorp/hcl/v2") ;; # examples/ent
	"MPL-2.0 github.com/riverqueue/"*) ;;   # lab, examples
	MPL-2.0*) complain "$module: MPL-2.0, and not one of those known for it: $file" ;;
	esac
done <"$dir/found"
for module in $(cut -d' ' -f1 "$dir/found" | sort -u | comm -13 - "$dir/modules"); do
	complain "$module: no licence file"
done
cut -d' ' -f1,2 "$dir/found" | sort -u | cut -d' ' -f2 | sort | uniq -c
exit $failed
