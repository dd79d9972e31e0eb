#!/usr/bin/env bash
# Regenerates the code in the examples that a tool has written, and fails, showing the difference, where that is not what
# was in the tree. sqlc is compiled for this, with cgo, which takes some two minutes the first time.
set -euo pipefail
cd "$(dirname "$0")/../examples"
export GOWORK=off

generated=(internal/generated)
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
cp -r --parents "${generated[@]}" "$before"

go generate ./ent ./sqlc

for dir in "${generated[@]}"; do
	git --no-pager diff --no-index --exit-code "$before/$dir" "$dir"
done
echo "generated code is up to date: ${generated[*]}"
