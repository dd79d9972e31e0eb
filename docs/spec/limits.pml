/*
 * How jobs of a limited queue are claimed: claim_limited, in backend/postgres/sql/migrations/0017_rules.sql.
 * docs/spec/README.md says what this model leaves out and how to check it.
 *
 * A claim takes the queue's advisory lock. Then it looks at the table, with a snapshot that is younger than the lock. It
 * claims as many pending jobs as the limit has room for. Its commit makes them visible as running, and afterwards the
 * server releases the lock. Runs end at any time, without the lock.
 */

#ifndef JOBS
#define JOBS 4
#endif
#ifndef CLAIMERS
#define CLAIMERS 3
#endif
#ifndef LIMIT
#define LIMIT 2
#endif

mtype:status = { pending, running, ended };

mtype:status job[JOBS] = pending; /* what is committed */
byte claimer[JOBS];               /* the claimer in whose transaction the row is locked; 0: none */
byte holder;                      /* the claimer that has the advisory lock; 0: none */
byte runs;                        /* how many jobs run */
byte waiting = JOBS;              /* how many jobs are pending */

/* What the mutants break. */
#ifdef MUTANT_NO_LOCK
#define take_lock(me) skip
#else
#define take_lock(me) holder == 0 -> holder = me
#endif
#define release_lock(me) if :: holder == me -> holder = 0 :: else fi

/* The claim's snapshot: it counts the runs that are committed now. */
#define look() room = (runs < LIMIT -> LIMIT - runs : 0)

/* SKIP LOCKED: locks a job that is pending in its newest version and that nobody has locked. */
inline lock_job(me) {
	for (i : 0 .. JOBS - 1) {
		if
		:: room > 0 && job[i] == pending && claimer[i] == 0 -> claimer[i] = me; room--
		:: else
		fi
	}
	i = 0
}

/* The end of a transaction: its jobs run, if it commits, and its row locks are released. */
inline end_tx(me, commits) {
	for (i : 0 .. JOBS - 1) {
		if
		:: claimer[i] == me ->
			claimer[i] = 0;
			if
			:: commits -> job[i] = running; runs++; waiting--
			:: else
			fi
		:: else
		fi
	}
	i = 0
}

proctype claims(byte me) {
	byte room;
	byte i;
idle:
end:
	waiting > 0;
#ifdef MUTANT_SNAPSHOT_FIRST /* one plain statement: its snapshot is older than the lock */
	look();
	atomic { take_lock(me) };
#else
	atomic { take_lock(me) };
	look();
#endif
	if
	:: d_step { lock_job(me) }
	:: goto crashed
	fi;
#ifdef MUTANT_UNLOCK_EARLY   /* a lock of the session, given up before the commit */
	release_lock(me);
#endif
	if
	:: d_step { end_tx(me, true) }
	:: goto crashed
	fi;
	d_step { release_lock(me); room = 0 };
	goto idle;

crashed: /* the process dies, or the server ends its transaction; it starts again */
	atomic {
		end_tx(me, false);
#ifndef MUTANT_LOCK_STAYS    /* a lock of the session, whose connection a pooler keeps */
		release_lock(me);
#endif
		room = 0
	};
	goto idle
}

/* Runs end: a job is settled, or it is pending again after a retry, a release or a reclaim. */
proctype ends() {
	byte n;
end:
	do
	:: d_step { runs > 0 -> n = 0; do :: job[n] == running -> break :: else -> n++ od; job[n] = ended; runs--; n = 0 }
	:: d_step { runs > 0 -> n = 0; do :: job[n] == running -> break :: else -> n++ od; job[n] = pending; runs--; waiting++; n = 0 }
	od
}

init {
	byte n;
	atomic {
		for (n : 1 .. CLAIMERS) {
			run claims(n)
		}
		run ends()
	}
}

ltl never_above_limit { [] (runs <= LIMIT) }
