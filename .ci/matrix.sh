#!/usr/bin/env bash
# Runs the tests that need PostgreSQL against each version named (default: 13 15
# 17 18) in Docker, which docker.sh brings up first. Prints a line per version,
# and the output of those that fail. PACKAGES says what is to be tested instead.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

[ $# -gt 0 ] || set -- 13 15 17 18
.ci/docker.sh "$@" || exit

read -ra packages <<<"${PACKAGES:-./backend/postgres/... ./backend/postgrestest/...}"
output=$(mktemp)
trap 'rm -f "$output"' EXIT
failed=0
for version; do
	start=$SECONDS
	if ERRAND_POSTGRES=docker ERRAND_POSTGRES_VERSION=$version go test -count=1 -timeout=15m "${packages[@]}" >"$output" 2>&1; then
		echo "ok   PostgreSQL $version, $((SECONDS - start)) s"
	else
		cat "$output"
		echo "FAIL PostgreSQL $version, $((SECONDS - start)) s"
		failed=1
	fi
done
exit $failed
