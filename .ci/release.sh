#!/usr/bin/env bash
# Tags a release in this clone and tries it as a user would. It pushes nothing: docs/releasing.md has the steps.
#
#   .ci/release.sh v0.1.0        tags the modules, and tries them
#   .ci/release.sh --try v0.1.0  does the same in a copy that it throws away
#
# The modules, in this order, because the last needs the others' tags: the library (v0.1.0), the
# progress bar of the command line (internal/progress/v0.1.0), the command line (cmd/errand/v0.1.0).
# A go.mod with `replace` cannot be installed by version, so the tag of the command line is on a
# commit of its own beside main, which has the requirements in place of the replacements.
set -euo pipefail
cd "$(dirname "$0")/.."

try=
[ "${1-}" != --try ] || { try=1; shift; }
version=${1-}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || { echo "usage: .ci/release.sh [--try] v0.1.0" >&2; exit 2; }
[ -n "$try" ] || [ -z "$(git status --porcelain)" ] || { git status --short; echo "release.sh: the clone has changes" >&2; exit 1; }
[ -n "$try" ] || grep -q "^## ${version#v} ([0-9]" CHANGELOG.md || { echo "release.sh: CHANGELOG.md has no '## ${version#v} (DATE)'" >&2; exit 1; }

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
here=$PWD
[ -z "$try" ] || here=$work/clone

# What the go command fetches of errand comes from this clone, not from GitHub; the rest as always.
path=github.com/errandhq/errand
export GOWORK=off GOFLAGS=-mod=mod GOPRIVATE=$path GOMODCACHE=$work/mod GIT_CONFIG_GLOBAL=$work/gitconfig
printf '[include]\n\tpath = ~/.gitconfig\n[safe]\n\tdirectory = *\n[protocol "file"]\n\tallow = always\n[url "file://%s"]\n\tinsteadOf = https://%s\n' "$here" "$path" >"$GIT_CONFIG_GLOBAL"
if [ -n "$try" ]; then
	printf '[user]\n\tname = errand\n\temail = try@example.com\n' >>"$GIT_CONFIG_GLOBAL"
	export GONOSUMDB='*' # the sums of go.mod's modules are in go.sum; a release looks the others up
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git clone -q --no-local "$PWD" "$here"
	else # what is tried is no clone, but the files of one
		cp -a . "$here" && git -C "$here" init -q && git -C "$here" add -A && git -C "$here" commit -qm errand
	fi
fi
others=$(env -u GOMODCACHE go env GOMODCACHE)/cache/download
[ ! -d "$others" ] || export GOPROXY="file://$others,$(go env GOPROXY)" # what this machine has already is not fetched again

git -C "$here" tag -a "$version" -m "errand ${version#v}"
git -C "$here" tag -a "internal/progress/$version" -m "errand ${version#v}: the progress bar of the command line"

git -C "$here" worktree add -q --detach "$work/release" "$version"
(
	cd "$work/release/cmd/errand"
	go mod edit -dropreplace "$path" -dropreplace "$path/internal/progress" \
		-require "$path@$version" -require "$path/internal/progress@$version"
	go mod tidy
	git commit -qam "release: cmd/errand needs $version of the library" -m "Its go.mod on main has replacements, with which it cannot be installed by version."
)
git -C "$here" tag -a "cmd/errand/$version" -m "errand ${version#v}: the command line" "$(git -C "$work/release" rev-parse HEAD)"
git -C "$here" worktree remove "$work/release"

# As a user: the command line by version, and README's first program in a module of its own.
mkdir "$work/user"
cd "$work/user"
GOBIN=$work/bin go install "$path/cmd/errand@$version"
"$work/bin/errand" version | tee "$work/said"
grep -q "errand $version" "$work/said"
cp "$here/examples/sqlite/main.go" .
go mod init example.com/try 2>/dev/null
go get "$path@$version" modernc.org/sqlite 2>/dev/null
go run . | tee "$work/said"
grep -q "welcome, user 1" "$work/said"

[ -z "$try" ] || { echo "release.sh: $version can be released from this commit"; exit 0; }
echo "release.sh: tagged; now"
echo "    git push origin $version internal/progress/$version cmd/errand/$version"
