#!/usr/bin/env bash
# Regenerates the generated code of the examples. If the result differs from the tree, it shows the
# difference and fails. The first time it compiles sqlc, with cgo, which takes some two minutes.
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
