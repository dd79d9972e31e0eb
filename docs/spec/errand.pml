/*
 * How a job is claimed, extended, settled and reclaimed. docs/spec/README.md says what this model leaves out and how to check it.
 *
 * A claim draws a fence and takes a lease. The worker extends the lease while the handler runs, and settles the job with
 * an outcome: done, retry, dead, release. A worker must present the fence to settle, so a late worker cannot finish
 * another's run. When a lease runs out, any worker may reclaim the job. Each statement is one step and names its file, which
 * is in backend/postgres/sql. What is marked "seen" is for the invariants only: no step depends on it.
 */

#ifndef JOBS
#define JOBS 2    /* 1 or 2 */
#endif
#ifndef WORKERS
#define WORKERS 2 /* 2 or 3 */
#endif
#define MAX_ATTEMPTS 2
#define NETWORK WORKERS /* its flight is the settling that its sender has given up waiting for */

mtype:status = { absent, pending, running, completed, dead };
mtype:verb = { done, retry, discard, release }; /* discard is the verb dead */

typedef Row {
	mtype:status status = absent;
	byte fence;       /* 0: nobody's */
	byte attempts;
	bool leased;      /* locked_until lies ahead */
	byte locked;      /* the worker, from 1, in whose open transaction it is settled; 0: none */
	bool in_tx;       /* its handlers settle it in the transaction in which they write a business row */
	byte spent;       /* seen: runs that were not given back */
	byte effects;     /* seen: business rows that were committed */
	bool discarded;   /* seen: its handler said that it is dead */
}
Row job[JOBS];

typedef Flight { /* what a worker knows of its run, whatever has become of the job */
	byte job;
	byte fence;                /* 0: it has no job */
	bool extended, tried, sent; /* what it does once only */
	bool leased;               /* seen: the lease that it was promised has not run out, and it has not given it up */
	bool late;                 /* seen: the run is over, settled or taken away */
}
Flight flight[WORKERS + 1];

bool late_changed; /* seen: a late worker has changed a job */
bool given_back;   /* seen: a job was released, and none has been claimed since */
hidden byte i;

#define flies(w, n) (flight[w].fence != 0 && flight[w].job == n)
#define the_job job[flight[w].job]

/* What the mutants break, unless they are broken further down. .ci/spin.sh sees each of them fail. */
#define fence_fits(w) (the_job.fence == flight[w].fence) /* when settling */
#define is_running(w) (the_job.status == running)        /* when settling */
#define may_extend(w) (the_job.fence == flight[w].fence && the_job.status == running)
#define has_run_out(n) (!job[n].leased)
#define is_free(n) (job[n].locked == 0)
#define was_last(n) (job[n].attempts >= MAX_ATTEMPTS)

#ifdef MUTANT_NO_FENCE      /* settle ignores the fence */
#undef fence_fits
#define fence_fits(w) true
#endif
#ifdef MUTANT_NO_STATUS     /* settle ignores that the job is settled */
#undef is_running
#define is_running(w) true
#endif
#ifdef MUTANT_EXTEND_ANY    /* extend ignores the fence */
#undef may_extend
#define may_extend(w) (the_job.status == running)
#endif
#ifdef MUTANT_RECLAIM_LIVE  /* reclaim ignores the lease */
#undef has_run_out
#define has_run_out(n) true
#endif
#ifdef MUTANT_RECLAIM_OPEN  /* reclaim ignores that the job is settled in an open transaction, as if that had not locked it */
#undef is_free
#define is_free(n) true
#endif
#ifdef MUTANT_RETRY_FOREVER /* retry and reclaim ignore max_attempts */
#undef was_last
#define was_last(n) false
#endif
#ifdef MUTANT_DEAD_AT_FIRST /* retry and reclaim take every attempt for the last one */
#undef was_last
#define was_last(n) true
#endif

/* A worker forgets its job: the reply has arrived, or it has crashed. */
inline forget(w) {
	flight[w].job = 0;
	flight[w].fence = 0;
	flight[w].extended = false;
	flight[w].tried = false;
	flight[w].sent = false;
	flight[w].leased = false;
	flight[w].late = false
}

/* Seen: the run of a job is over, for every worker that knows of it. */
inline over(n) {
	for (i : 0 .. NETWORK) {
		if
		:: flies(i, n) -> flight[i].late = true
		:: else
		fi
	}
}

/* A lease ends: its time is over, or it is given up. */
inline lapse(n) {
	for (i : 0 .. NETWORK) {
		if
		:: flies(i, n) -> flight[i].leased = false
		:: else
		fi
	}
	job[n].leased = false
}

/*
 * A number of the sequence that was never drawn before. A fence is only ever compared with its row's, which is the last one that was
 * drawn for it or 0. So one number stands for the last, and one for all before it, and the states are finite without a bound on the
 * claims. With SEQUENCE the numbers are true, and there is one.
 */
#ifdef SEQUENCE
byte drawn;
#define may_draw (drawn < SEQUENCE)
inline draw(n) { drawn++; job[n].fence = drawn }
#else
#define may_draw true
#define LAST    1
#define EARLIER 2
inline draw(n) {
#ifndef MUTANT_KEEP_FENCE /* the next claim of a job has the fence of the one before */
	for (i : 0 .. NETWORK) {
		if
		:: flies(i, n) -> flight[i].fence = EARLIER
		:: else
		fi
	}
#endif
	job[n].fence = LAST
}
#endif

/* claim.sql */
inline claim(n) {
	job[n].status == pending && may_draw;
	job[n].status = running;
	job[n].attempts++;
	draw(n);
	job[n].leased = true;
	given_back = false
}

/* extend.sql. It passes over a row that is locked, which no invariant needs: here it may do either. */
inline extend(w) {
	if
	:: may_extend(w) ->
	   late_changed = late_changed || flight[w].late;
	   the_job.leased = true;
	   flight[w].leased = !flight[w].late
	:: else /* lost: nothing changes */
	fi
}

/* settle.sql and settle_done.sql, which wait for a row that is locked. */
inline settle(w, verb) {
	if
	:: fence_fits(w) && is_running(w) ->
	   late_changed = late_changed || flight[w].late;
	   lapse(flight[w].job);
	   over(flight[w].job);
	   record(flight[w].job, verb)
	:: else /* lost: nothing changes */
	fi
}

inline record(n, verb) {
	job[n].leased = false;
	if
	:: verb == done ->
	   job[n].status = completed; /* the fence stays */
	   job[n].spent++
	:: verb == discard || verb == retry && was_last(n) ->
	   job[n].status = dead;
	   job[n].fence = 0;
	   job[n].discarded = (verb == discard);
	   job[n].spent++
	:: verb == retry && !was_last(n) ->
	   job[n].status = pending;
	   job[n].fence = 0;
	   job[n].spent++
	:: verb == release ->
	   job[n].status = pending;
	   job[n].fence = 0;
#ifndef MUTANT_RELEASE_COSTS /* a release costs the attempt */
	   job[n].attempts--;
#endif
	   given_back = true
	fi
}

/* reclaim.sql, which passes over a row that is locked. */
inline reclaim(n) {
	job[n].status == running && has_run_out(n) && is_free(n);
	over(n);
	record(n, retry);
#ifdef MUTANT_CRASH_FREE /* a crash costs no attempt */
	job[n].attempts = 0;
#endif
}

/* The transaction of a handler: its business row, and settle_done.sql. Nobody sees either before the commit. */
inline settle_in_tx(w) {
	if
	:: fence_fits(w) && is_running(w) -> the_job.locked = w + 1
	:: else /* lost: it is rolled back */
#ifdef MUTANT_COMMIT_LOST /* it is committed all the same */
	   -> the_job.effects++
#endif
	fi
}

inline commit(w) {
	the_job.locked = 0;
	the_job.effects++;
	settle(w, done)
}

#define claims(n) d_step { claim(n); flight[w].job = n; flight[w].fence = job[n].fence; flight[w].leased = true }

/* A worker that has settled and got the reply forgets the job, whether it was lost or not. */
#define settles(verb) d_step { \
	flight[w].fence != 0 && the_job.locked == 0 && (verb != done || !the_job.in_tx) -> settle(w, verb); forget(w) }

/* The statement goes out and no reply comes. What it says is chosen when it arrives, if it ever does. */
#define sends d_step { \
	!flight[w].sent && flight[NETWORK].fence == 0 -> \
	flight[w].sent = true; \
	flight[NETWORK].job = flight[w].job; \
	flight[NETWORK].fence = flight[w].fence; \
	flight[NETWORK].late = flight[w].late }

/*
 * A slot of a worker. It may stand still before any step, however long (SIGSTOP), and go on without a look at what has become of
 * its job. It may settle what it has settled before, differently too, as a handler does that runs on after its
 * worker has given the job back. What a handler that never ends, or a network that never answers, would go on with for
 * ever, it does once a run: extend, try a transaction, send without a reply.
 */
proctype Worker(byte w) {
end_idle:
	do
	:: claims(0); goto holds
	:: d_step { claim(0) } /* the reply is lost: nobody knows of this run */
#if JOBS > 1
	:: claims(1); goto holds
	:: d_step { claim(1) }
#endif
	od;
holds:
	do
	:: d_step { !flight[w].extended -> flight[w].extended = true; extend(w) }
	:: d_step { the_job.in_tx && !flight[w].tried && the_job.locked == 0 -> flight[w].tried = true; settle_in_tx(w) }
	:: d_step { the_job.locked == w + 1 -> commit(w) } /* it may or may not hear of it */
	:: d_step { the_job.locked == w + 1 -> the_job.locked = 0 } /* rolled back: the handler has failed */
	:: settles(done); goto end_idle
	:: settles(retry); goto end_idle
	:: settles(discard); goto end_idle
	:: settles(release); goto end_idle
	:: sends
	:: d_step { forget(w) }; goto end_idle /* crashed and started again, or told by extend that the job is lost */
	:: d_step { w > 0 -> forget(w) }; break /* crashed for good, or stands still for ever: one is left that does not */
	od
}

/* A statement whose sender waits no more arrives at any time, or never. */
proctype Network(byte w) {
end:
	do
	:: settles(done)
	:: settles(retry)
	:: settles(discard)
	:: settles(release)
	:: d_step { flight[w].fence != 0 -> forget(w) }
	od
}

/* What befalls a job but for the worker that has it. If nothing can happen any more, the job must have ended. */
proctype Upkeep(byte n) {
	if
	:: d_step { job[n].status = pending; job[n].in_tx = true } /* enqueue.sql and its shorter forms */
	:: job[n].status = pending
	:: goto enough /* the transaction that enqueues it is rolled back */
	fi;
	do
	:: d_step { job[n].leased -> lapse(n) } /* the clock */
#ifndef MUTANT_NO_RECLAIM /* nobody reclaims */
	:: d_step { reclaim(n) } /* by any worker */
#endif
#ifndef MUTANT_OPEN_FOREVER /* the server waits for ever for a client that is gone or stands still */
	:: job[n].locked != 0 -> job[n].locked = 0 /* the server ends an open transaction */
#endif
	:: timeout -> job[n].status == completed || job[n].status == dead; break
	od;
enough:
	skip
}

init {
	atomic {
		for (i : 0 .. WORKERS - 1) { run Worker(i) }
		for (i : 0 .. JOBS - 1) { run Upkeep(i) }
		run Network(NETWORK)
	}
}

/* The invariants, for each job or each two workers. */

#if JOBS == 1
#define each_job(p) (p(0))
#else
#define each_job(p) (p(0) && p(1))
#endif
#if WORKERS == 2
#define no_two(p) (!p(0, 1))
#else
#define no_two(p) (!p(0, 1) && !p(0, 2) && !p(1, 2))
#endif

#define is_claimed(n) (job[n].status == running)
#define is_done(n) (job[n].status == completed)
#define is_dead(n) (job[n].status == dead)

/* No two hold the fence of a job that is running: what they present would be taken from both. */
#define holds(w, n) (flies(w, n) && is_claimed(n) && job[n].fence == flight[w].fence)
#define both_hold(v, w) (holds(v, flight[v].job) && holds(w, flight[v].job))
ltl one_fence { [] no_two(both_hold) }

/* No two have been promised the same job for a time that has not run out. */
#define both_leased(v, w) (flight[v].leased && flight[w].leased && flight[v].job == flight[w].job)
ltl one_lease { [] no_two(both_leased) }

/* A worker that extends, settles or commits after the run is over changes nothing. So a settling that is repeated is harmless. */
ltl late_changes_nothing { [] !late_changed }

/* A job that is completed or dead never is anything else again. */
#define stays(n) ([] (is_done(n) -> [] is_done(n)) && [] (is_dead(n) -> [] is_dead(n)))
ltl ended_stays_ended { each_job(stays) }

#define bounded(n) (job[n].attempts <= MAX_ATTEMPTS)
ltl attempts_bounded { [] each_job(bounded) }

/* A job is dead only after its last attempt, or because its handler said so. */
#define patient(n) (!is_dead(n) || job[n].discarded || job[n].attempts == MAX_ATTEMPTS)
ltl gets_its_attempts { [] each_job(patient) }

/* A run that was given back costs no attempt, and every other one costs one. */
#define counted(n) (job[n].attempts == job[n].spent + is_claimed(n))
ltl release_is_free { [] each_job(counted) }

/* Work that is written in the transaction that settles the job is done once if the job is done, and else not at all. */
#define exact(n) (job[n].effects == (job[n].in_tx && is_done(n)))
ltl exactly_one_row { [] each_job(exact) }

/* All of these but ended_stays_ended, in one search. */
ltl every_state { [] (no_two(both_hold) && no_two(both_leased) && !late_changed && each_job(bounded) && each_job(patient) && each_job(counted) && each_job(exact)) }

/* Each run is over some time: the job has ended, or is claimable. */
#define returns(n) ([] (is_claimed(n) -> <> !is_claimed(n)))
ltl ends_or_claimable { each_job(returns) }

/* Each job that was enqueued ends, unless jobs are given back again and again. */
#define is_over(n) (is_done(n) || is_dead(n) || job[n].status == absent)
ltl ends_unless_given_back { <> [] each_job(is_over) || ([] <> given_back && [] <> !given_back) }
