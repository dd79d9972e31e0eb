#!/usr/bin/env bash
# Runs the backends' tests against each PostgreSQL version named (default: 13 15
# 17 18) in Docker, which docker.sh brings up first. Prints a line per version,
# and the output of those that fail. PACKAGES is a narrower pattern of what to test.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

[ $# -gt 0 ] || set -- 13 15 17 18
.ci/docker.sh "$@" || exit

output=$(mktemp)
trap 'rm -f "$output"' EXIT
failed=0
for version; do
	start=$SECONDS
	if ERRAND_POSTGRES=docker ERRAND_POSTGRES_VERSION=$version go test -count=1 -timeout=15m "${PACKAGES:-./backend/...}" >"$output" 2>&1; then
		echo "ok   PostgreSQL $version, $((SECONDS - start)) s"
	else
		cat "$output"
		echo "FAIL PostgreSQL $version, $((SECONDS - start)) s"
		failed=1
	fi
done
exit $failed
