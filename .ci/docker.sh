#!/usr/bin/env bash
# Makes sure that Docker runs and has an image postgres:NN for each version named (default: 13 15 17
# 18 19, none: Docker alone). On a machine that has both it changes nothing.
#
# If no Docker answers, and it runs as root on a Debian, it installs Debian's
# and starts dockerd in the background. Its log and its process id are in the
# directory DOCKERD_DIR, by default a new one, as dockerd.log and dockerd.pid.
# Where an image can be neither found nor pulled, it is made from Debian's own
# packages, as they were on the day SNAPSHOT, where that archive can be reached.
set -euo pipefail
cd "$(dirname "$0")"

SNAPSHOT=20261128T000000Z

log() { echo "docker.sh: $*" >&2; }

answers() { docker version >/dev/null 2>&1; }

# apt_install PACKAGE...: from Debian, without what they only recommend.
apt_install() {
	local out
	apt-get update -qq || log "apt-get update: not all of it worked"
	out=$(DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" 2>&1) ||
		{ echo "$out" >&2; return 1; }
}

start_docker() {
	local dir=${DOCKERD_DIR:-$(mktemp -d)}
	local logfile=$dir/dockerd.log
	command -v dockerd >/dev/null || { log "installing Docker"; apt_install docker.io iptables; }
	log "starting dockerd, its log is $logfile"
	setsid dockerd --pidfile "$dir/dockerd.pid" >"$logfile" 2>&1 </dev/null &
	for _ in $(seq 300); do # 60 s
		answers && return
		kill -0 $! 2>/dev/null || break
		sleep 0.2
	done
	tail -n 20 "$logfile" >&2
	log "dockerd does not answer"
	return 1
}

# suite VERSION: the Debian release that has it.
suite() {
	case $1 in
	13) echo bullseye ;;
	15) echo bookworm ;;
	17) echo trixie ;;
	18) echo testing ;;
	19) echo experimental ;; # which is no release of its own, but what is newer than sid
	*) log "no Debian release is known to have PostgreSQL $1"; return 1 ;;
	esac
}

# mirror RELEASE: the archive of that day, or today's where that day's cannot be reached.
mirror() {
	local dated=http://snapshot.debian.org/archive/debian/$SNAPSHOT
	if wget -q --spider --tries=1 --timeout=10 "$dated/dists/$1/InRelease"; then
		echo "$dated"
	else
		log "$dated cannot be reached: NOT PINNED, the packages are today's"
		echo http://deb.debian.org/debian
	fi
}

# add_experimental DIR VERSION: installs postgresql-VERSION from experimental in the root DIR, which is sid.
add_experimental() {
	local dir=$1 version=$2
	echo "deb $(mirror experimental) experimental main" >>"$dir/etc/apt/sources.list"
	printf 'Package: src:postgresql-%s src:postgresql-common\nPin: release a=experimental\nPin-Priority: 600\n' "$version" >"$dir/etc/apt/preferences.d/postgresql"
	printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d" # nothing is started
	chmod 755 "$dir/usr/sbin/policy-rc.d"
	mount -t proc proc "$dir/proc" # its scripts ask for it
	chroot "$dir" env -u TMPDIR apt-get -o Acquire::Check-Valid-Until=false update -qq &&
		chroot "$dir" env -u TMPDIR DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "postgresql-$version"
	local status=$?
	umount "$dir/proc"
	return $status
}

# build VERSION: makes postgres:VERSION, which takes the same environment and
# arguments as the official image, as far as docker-entrypoint.sh says.
build() (
	version=$1
	release=$(suite "$version")
	command -v debootstrap >/dev/null || apt_install debootstrap wget
	dir=$(mktemp -d)
	trap 'rm -rf --one-file-system "$dir"' EXIT
	chmod 755 "$dir" # it becomes the image's root directory
	log "building postgres:$version from Debian $release"
	if [ "$release" = experimental ]; then
		debootstrap --variant=minbase sid "$dir" "$(mirror sid)" && add_experimental "$dir" "$version"
	else
		debootstrap --variant=minbase --include="postgresql-$version" "$release" "$dir" "$(mirror "$release")"
	fi >"$dir.log" 2>&1 || { tail -n 20 "$dir.log" >&2; return 1; }
	rm -rf "$dir.log" "$dir"/var/lib/postgresql/* "$dir"/var/{cache/apt,lib/apt/lists}/* "$dir"/usr/share/{doc,man,locale}/*
	cp docker-entrypoint.sh "$dir/usr/local/bin/docker-entrypoint.sh"
	tar -C "$dir" -c . | docker import \
		--change 'ENTRYPOINT ["docker-entrypoint.sh"]' \
		--change 'CMD ["postgres"]' \
		--change 'EXPOSE 5432' \
		--change 'VOLUME /var/lib/postgresql' \
		--change "ENV PATH=/usr/lib/postgresql/$version/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8" \
		- "postgres:$version" >/dev/null
)

# image VERSION: sees to it that postgres:VERSION is there.
image() {
	docker image inspect "postgres:$1" >/dev/null 2>&1 && return
	log "pulling postgres:$1"
	docker pull -q "postgres:$1" >/dev/null || build "$1"
}

answers || start_docker
[ "${1-}" != none ] || exit 0 # Docker alone
[ $# -gt 0 ] || set -- 13 15 17 18 19
for version; do
	image "$version"
	log "postgres:$version is there"
done
