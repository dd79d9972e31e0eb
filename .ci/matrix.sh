#!/usr/bin/env bash
# Runs the tests that need PostgreSQL against each version named (default: 13 15 17 18 19) in Docker,
# which docker.sh starts first, with -short, and those of plans, migrations and roles whole: they depend
# on the version. Prints a line per version, and the output of those that fail. PACKAGES names other
# packages to test. If docker.sh had to start dockerd, matrix.sh stops it.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

[ $# -gt 0 ] || set -- 13 15 17 18 19
DOCKERD_DIR=$(mktemp -d)
export DOCKERD_DIR

# stop_dockerd stops the dockerd that docker.sh has started, if it has, and waits for it.
stop_dockerd() {
	local pid
	pid=$(cat "$DOCKERD_DIR/dockerd.pid" 2>/dev/null) || return 0
	kill "$pid" && timeout 60 tail --pid="$pid" -f /dev/null
}
trap 'stop_dockerd; rm -rf "$DOCKERD_DIR"' EXIT

.ci/docker.sh "$@" || exit

read -ra packages <<<"${PACKAGES:-./backend/postgres/... ./backend/postgrestest/...}"
output=$DOCKERD_DIR/output
versioned='TestServersVersion$|TestPlans$|TestLimitHoldsWhateverThePlan$|TestMigrat|TestRoles'
failed=0
for version; do
	start=$SECONDS
	export ERRAND_POSTGRES=docker ERRAND_POSTGRES_VERSION=$version
	if go test -count=1 -timeout=15m -short "${packages[@]}" >"$output" 2>&1 &&
		go test -count=1 -run "^($versioned)" ./backend/postgres ./ops/doctor >>"$output" 2>&1; then
		echo "ok   PostgreSQL $version, $((SECONDS - start)) s"
	else
		cat "$output"
		echo "FAIL PostgreSQL $version, $((SECONDS - start)) s"
		failed=1
	fi
done
exit $failed
