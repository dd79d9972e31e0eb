/*
 * How the ticks of a schedule are fired: backend/postgres/schedule_fire.go. docs/spec/README.md says what this model leaves
 * out and how to check it.
 *
 * The schedule has a tick at each of the times 1 to TICKS. A process locks the schedule when its next tick has come, and
 * reads it. It enqueues the jobs of the ticks that have come, and moves the schedule on if version and next tick are still
 * those that it has read. All of that is one transaction. People edit the schedule meanwhile: an edit reads it, computes
 * the next tick from now, and writes both if nothing has changed since. The clock steps back once.
 */

#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef TICKS
#define TICKS 4
#endif
#define EDITS 2

/* The row of the schedule, as it is committed. */
byte next_at = 1; /* TICKS + 1 when all ticks are over */
byte last_tick;
byte version;
byte locked;     /* the process in whose transaction the row is locked; 0: none */

byte now;               /* the database's clock */
byte jobs[TICKS + 1];   /* how many jobs of each tick are committed */
bool edited[TICKS + 1]; /* seen: the tick had come and was not fired when an edit began anew from now */
bool stale;             /* seen: a tick of an older version was fired */

/* What the mutants break. */
#define is_free (locked == 0)
#define is_same(was, was_version) (next_at == was && version == was_version)
#define edit_fits(was, was_version) (next_at == was && version == was_version)
#define first_after(at) ((last_tick > at -> last_tick : at) + 1)
#ifdef MUTANT_NEITHER    /* it neither locks the row nor compares; one of the two would do */
#undef is_free
#undef is_same
#define is_free true
#define is_same(was, was_version) true
#endif
#ifdef NO_LOCK           /* breaks nothing: the comparison alone is enough */
#undef is_free
#define is_free true
#endif
#ifdef NO_COMPARE        /* nor this: the row lock alone is enough */
#undef is_same
#define is_same(was, was_version) true
#endif
#ifdef MUTANT_EDIT_BLIND /* an edit writes whatever has been fired since it has read the row */
#undef edit_fits
#define edit_fits(was, was_version) true
#endif
#ifdef MUTANT_EDIT_FORGETS /* an edit computes the next tick from the clock alone */
#undef first_after
#define first_after(at) (at + 1)
#endif

inline count_jobs() {
	for (t : was .. at) {
		jobs[t] = (jobs[t] < 2 -> jobs[t] + 1 : 2) /* 2 stands for more */
	}
	t = 0
}

inline move_on() {
	if
	:: version != was_version -> stale = true
	:: else
	fi;
	last_tick = at;
	next_at = at + 1
}

inline unlock(me) {
	if
	:: locked == me -> locked = 0
	:: else
	fi
}

proctype fires(byte me) {
	byte at;
	byte was;
	byte was_version;
	byte t;
idle:
	if
	:: atomic { /* schedule_due.sql: SKIP LOCKED */
		next_at <= now && is_free ->
		locked = me;
		at = now;
		was = next_at;
		was_version = version
	   }
	:: next_at > TICKS ->
end:
		next_at <= TICKS;
		goto idle
	fi;
	/* Enqueue. What it has written is not visible before the commit. */
	if
	:: skip
	:: goto crashed
	fi;
#ifdef MUTANT_ENQUEUE_ALONE /* the jobs are committed before the schedule moves on */
	d_step { count_jobs() };
	if
	:: skip
	:: goto crashed
	fi;
	d_step { is_same(was, was_version) -> move_on(); unlock(me) };
#else
#ifdef MUTANT_MOVE_ALONE    /* the schedule moves on before the jobs are committed */
	d_step { move_on(); unlock(me) };
	if
	:: skip
	:: goto crashed
	fi;
	d_step { count_jobs() };
#else
	d_step { /* schedule_fired.sql, and the commit; the transaction fails if the row has changed */
		if
		:: is_same(was, was_version) -> count_jobs(); move_on()
		:: else
		fi;
		unlock(me)
	};
#endif
#endif
	d_step { at = 0; was = 0; was_version = 0 };
	goto idle;

crashed: /* the process dies, or the server ends its transaction because it is frozen; it starts again */
	atomic {
#ifndef MUTANT_LOCK_STAYS
		unlock(me);
#endif
		at = 0; was = 0; was_version = 0
	};
	goto idle
}

proctype edits() {
	byte at;
	byte was;
	byte was_version;
	byte first;
	byte t;
	do
	:: version < EDITS ->
		d_step { at = now; was = next_at; was_version = version; first = first_after(now) }; /* schedule_read.sql */
		atomic { /* schedule_write.sql waits for the row; if the row has changed, the edit begins anew */
			locked == 0 ->
			if
			:: edit_fits(was, was_version) ->
				for (t : next_at .. TICKS) {
					edited[t] = edited[t] || t < first
				}
				next_at = first;
				version++
			:: else
			fi;
			t = 0
		}
	:: break
	od
}

proctype clock() {
	bool stepped;
	do
	:: now < TICKS -> now++
	:: d_step { !stepped && now > 0 -> now--; stepped = true }
	:: now == TICKS -> break
	od
}

init {
	byte n;
	atomic {
		for (n : 1 .. PROCESSES) {
			run fires(n)
		}
		run edits();
		run clock()
	}
}

#define is_over(t) (next_at > t)
#define is_accounted(t) (!is_over(t) || jobs[t] > 0 || edited[t])

ltl never_twice { [] (jobs[1] <= 1 && jobs[2] <= 1 && jobs[3] <= 1 && jobs[4] <= 1) }
ltl none_missed { [] (is_accounted(1) && is_accounted(2) && is_accounted(3) && is_accounted(4)) }
ltl edit_holds { [] !stale }
