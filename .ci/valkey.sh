#!/usr/bin/env bash
# Runs all tests of backend/redis (ERRAND_TESTS=whole) on Valkey: the conformance suite on a node and
# on clusters, failover, moves of slots. It takes Debian's valkey-server, of the backports of this release or of the release
# itself, from the mirror that apt has, and unpacks it into a temporary folder; apt's own lists stay as
# they are. Prints a line with the version. Fails if the mirror has no valkey-server.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# fetch unpacks valkey-server into $dir/usr.
fetch() {
	local release mirror suite key=/usr/share/keyrings/debian-archive-keyring.gpg
	release=$(. /etc/os-release && echo "$VERSION_CODENAME")
	mirror=$(apt-get indextargets --format '$(SITE)' "Codename: $release" "Origin: Debian" | head -n 1)
	local options=(-qq -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$dir/lists"
		-o Dir::Cache="$dir/cache" -o Debug::NoLocking=true -o APT::Sandbox::User=)
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
	for suite in "$release-backports" "$release"; do
		echo "deb [signed-by=$key] ${mirror:-http://deb.debian.org/debian} $suite main" >"$dir/sources.list"
		apt-get "${options[@]}" update && apt-cache "${options[@]}" show valkey-server >/dev/null 2>&1 || continue
		(cd "$dir" && apt-get "${options[@]}" download valkey-server valkey-tools && for package in *.deb; do dpkg -x "$package" .; done)
		return
	done
	echo "no valkey-server in $release-backports and $release" >&2
	return 1
}

fetch
export ERRAND_REDIS_SERVER=$dir/usr/bin/valkey-server ERRAND_TESTS=whole
unset REDIS_URL
version=$("$ERRAND_REDIS_SERVER" --version) # "Valkey server v=8.0.1 sha=..."
version=${version#*v=}
start=$SECONDS
go test -count=1 -timeout=15m ./backend/redis/...
echo "ok   Valkey ${version%% *}, $((SECONDS - start)) s"
