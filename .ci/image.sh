#!/usr/bin/env bash
# Builds the Dockerfile and tries the image: its user, its zones, its size, and the command line in it.
# The image golang:1.26, which it would pull, is made of this machine's Go and the modules that it has.
set -euo pipefail
cd "$(dirname "$0")/.."

DOCKERD_DIR=$(mktemp -d)
export DOCKERD_DIR
work=$(mktemp -d)
stop() {
	pid=$(cat "$DOCKERD_DIR/dockerd.pid" 2>/dev/null) && kill "$pid" && timeout 60 tail --pid="$pid" -f /dev/null
	rm -rf "$DOCKERD_DIR" "$work"
}
trap stop EXIT
.ci/docker.sh none

echo "--- an image of this machine's Go"
mkdir -p "$work"/{etc/ssl/certs,tmp,go}
cp -L /etc/ssl/certs/ca-certificates.crt "$work/etc/ssl/certs/"
go=$(go env GOROOT)
mkdir -p "$work/usr/local" "$work/bin"
cp -a "$go" "$work/usr/local/go"
rm -rf "$work"/usr/local/go/{test,api,doc,misc}
for file in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do
	mkdir -p "$work$(dirname "$file")"
	cp -L "$file" "$work$file"
done
(
	others=$(go env GOMODCACHE)/cache/download
	cd cmd/errand
	GOWORK=off GOMODCACHE=$work/go GOPROXY="file://$others,$(go env GOPROXY)" GONOSUMDB='*' go mod download
)
find "$work/go" -mindepth 1 -maxdepth 1 ! -name cache -exec chmod -R u+w {} + -exec rm -rf {} +
tar -C "$work" -c . | docker import \
	--change 'ENV PATH=/usr/local/go/bin:/bin HOME=/tmp GOPROXY=file:///go/cache/download GONOSUMDB=* GOTOOLCHAIN=local' - errand-go >/dev/null

echo "--- the image"
docker build -q -t errand --build-arg GO=errand-go --build-arg VERSION=v0.0.0-try . >/dev/null
docker image inspect -f '{{.Size}} bytes, user {{.Config.User}}' errand | tee "$work/said"
grep -q 'user 65532:65532$' "$work/said"
docker run --rm errand version | tee "$work/said"
grep -q '^errand v0.0.0-try,' "$work/said"
box=$(docker create errand)
docker cp -q "$box:/bin/errand" "$work/errand"
docker rm "$box" >/dev/null
go version -m "$work/errand" | grep -q -- '-tags=timetzdata' # the zones of schedules
