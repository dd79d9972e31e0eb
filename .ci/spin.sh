#!/usr/bin/env bash
# Checks the models in docs/spec with spin, which it installs on a Debian that has none: each invariant
# in every state that can be reached, and that each mutant breaks the invariant that it is meant to
# break. Prints a line per check. FULL=1 also checks the liveness of two jobs, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

spec=$PWD/docs/spec
always=(one_fence one_lease late_changes_nothing ended_stays_ended attempts_bounded gets_its_attempts release_is_free exactly_one_row)
sometime=(ends_or_claimable ends_unless_given_back)

# What each mutant breaks.
limit_mutants=(
	NO_LOCK:never_above_limit
	SNAPSHOT_FIRST:never_above_limit
	UNLOCK_EARLY:never_above_limit
	LOCK_STAYS:no_dead_end
)
schedule_mutants=(
	NEITHER:never_twice
	NEITHER:edit_holds
	EDIT_BLIND:never_twice
	EDIT_FORGETS:never_twice
	ENQUEUE_ALONE:never_twice
	MOVE_ALONE:none_missed
	LOCK_STAYS:no_dead_end
)
mutants=(
	NO_FENCE:late_changes_nothing
	NO_STATUS:ended_stays_ended
	EXTEND_ANY:late_changes_nothing
	KEEP_FENCE:one_fence
	RECLAIM_LIVE:one_lease
	RECLAIM_OPEN:exactly_one_row
	COMMIT_LOST:exactly_one_row
	RETRY_FOREVER:attempts_bounded
	DEAD_AT_FIRST:gets_its_attempts
	RELEASE_COSTS:release_is_free
	NO_RECLAIM:no_dead_end
	NO_RECLAIM:ends_or_claimable
	OPEN_FOREVER:ends_or_claimable
	CRASH_FREE:ends_unless_given_back
)

if ! command -v spin >/dev/null; then
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq spin >/dev/null
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
failed=0

# translate MODEL FLAG...: makes the verifier's source, pan.c, of the model with these flags.
translate() {
	rm -f always sometime no_dead_end
	spin -a "${@:2}" "$spec/$1.pml" >spin.log || { cat spin.log; return 1; }
}

# search PROPERTY: writes what the verifier finds to pan.log. Fails if it has not seen all it should.
search() {
	local kind=always flags=(-DSAFETY) args=(-N "$1")
	case $1 in
	no_dead_end) kind=no_dead_end flags=(-DSAFETY -DNOCLAIM) args=() ;;
	ends_*) kind=sometime flags=(-DNFAIR=3) args=(-a -f -N "$1") ;; # -f: weak fairness
	esac
	[ -x $kind ] || gcc -w -O2 -DMEMLIM=4000 "${flags[@]}" -o $kind pan.c
	./$kind -m200000 "${args[@]}" >pan.log 2>&1 || true # it ends with 0 whatever it finds
	grep -q 'errors: ' pan.log && ! grep -qi 'search depth too small\|memory limit\|out of memory' pan.log
}

figures() {
	awk '/states, stored/ { states = $1 } /depth reached/ { depth = $6 + 0 } /total actual memory/ { memory = $1 } /elapsed time/ { time = $4 }
		END { printf "%d states, depth %d, %.1f s, %.0f MB", states, depth, time, memory }' pan.log
}

# holds SCOPE PROPERTY...: each is to hold, wherever the search gets.
holds() {
	local scope=$1 property
	shift
	for property; do
		if search "$property" && grep -q 'errors: 0$' pan.log && ! grep -q 'not completed' pan.log; then
			echo "ok   $scope: $property: $(figures)"
		else
			cat pan.log
			echo "FAIL $scope: $property"
			failed=1
		fi
	done
}

# breaks MUTANT PROPERTY
breaks() {
	if search "$2" && grep -q 'errors: [1-9]' pan.log; then
		echo "ok   mutant $1 breaks $2"
	else
		cat pan.log
		echo "FAIL mutant $1 survives $2"
		failed=1
	fi
}

translate errand -DJOBS=1 -DWORKERS=3
holds '1 job, 3 workers' no_dead_end "${always[@]}" "${sometime[@]}"
# With true numbers for fences, and so no more than some claims: it may come to a dead end.
translate errand -DJOBS=1 -DWORKERS=2 -DSEQUENCE=8
holds '1 job, 2 workers, 8 claims' every_state ended_stays_ended
translate errand -DJOBS=2 -DWORKERS=2
holds '2 jobs, 2 workers' no_dead_end every_state ended_stays_ended
[ -z "${FULL:-}" ] || holds '2 jobs, 2 workers' "${sometime[@]}"

for mutant in "${mutants[@]}"; do
	translate errand -DJOBS=1 -DWORKERS=2 "-DMUTANT_${mutant%:*}"
	breaks "${mutant%:*}" "${mutant#*:}"
done

translate limits
holds 'limits' no_dead_end never_above_limit
for mutant in "${limit_mutants[@]}"; do
	translate limits "-DMUTANT_${mutant%:*}"
	breaks "limits ${mutant%:*}" "${mutant#*:}"
done

translate schedules
holds 'schedules' no_dead_end never_twice none_missed edit_holds
for half in NO_LOCK NO_COMPARE; do # each of the two is enough
	translate schedules -D$half
	holds "schedules, $half" never_twice none_missed edit_holds
done
for mutant in "${schedule_mutants[@]}"; do
	translate schedules "-DMUTANT_${mutant%:*}"
	breaks "schedules ${mutant%:*}" "${mutant#*:}"
done
exit $failed
