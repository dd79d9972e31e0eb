#!/usr/bin/env bash
# Runs the backends' tests against each PostgreSQL version named (default: 13 15
# 17 18) in Docker, which docker.sh brings up first. Prints a line per version,
# and the output of those that fail. PACKAGES narrows what is tested.
set -uo pipefail
cd "$(dirname "$0")/.."

versions=${*:-13 15 17 18}
packages=${PACKAGES:-./backend/...}
.ci/docker.sh $versions || exit

output=$(mktemp)
trap 'rm -f "$output"' EXIT
failed=0
for version in $versions; do
	start=$SECONDS
	if ERRAND_POSTGRES=docker ERRAND_POSTGRES_VERSION=$version go test -count=1 -timeout=15m $packages >"$output" 2>&1; then
		echo "ok   PostgreSQL $version, $((SECONDS - start)) s"
	else
		cat "$output"
		echo "FAIL PostgreSQL $version, $((SECONDS - start)) s"
		failed=1
	fi
done
exit $failed
