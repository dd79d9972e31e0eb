package postgres

import (
	"embed"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
)

//go:embed sql
var sqlFiles embed.FS

// statements are the texts of the sql folder, with the schema in place.
type statements struct {
	enqueueStatements
	claimStatements
	ruleStatements
	settleStatements
	sleepStatements
	controlStatements
	inspectStatements
	scheduleStatements
	fleetStatements
}

// A loader returns the text of a file.
type loader func(name string) string

func loadStatements(schema string) statements {
	load := func(name string) string { return inSchema(sqlkit.ReadFile(sqlFiles, "sql/"+name+".sql"), schema) }
	return statements{
		loadEnqueue(load),
		loadClaim(load),
		loadRule(load),
		loadSettle(load),
		loadSleep(load),
		loadControl(load),
		loadInspect(load),
		loadSchedule(load),
		loadFleet(load),
	}
}

// enqueueStatements write jobs.
type enqueueStatements struct {
	enqueue, enqueueOne, enqueueKeyed, enqueuePlain, enqueueOneGrouped string
	enqueuePlainGrouped, enqueueReplacing, rememberSources, keepPast   string
}

func loadEnqueue(load loader) enqueueStatements {
	return enqueueStatements{
		enqueue:             load("enqueue"),
		enqueueOne:          load("enqueue_one"),
		enqueueKeyed:        load("enqueue_one_keyed"),
		enqueuePlain:        load("enqueue_plain"),
		enqueueOneGrouped:   load("enqueue_one_grouped"),
		enqueuePlainGrouped: load("enqueue_plain_grouped"),
		enqueueReplacing:    load("enqueue_replacing"),
		rememberSources:     load("remember_sources"),
		keepPast:            load("keep_past"),
	}
}

// claimStatements claim jobs, and hold them.
type claimStatements struct {
	claim, claimTx, claimOrdered, orderedQueues, resume, probe                 string
	priorities, transactions, extend, reassign, claimHeads, claimTry, lockRows string
	releaseUnanswered, reclaim                                                 upkeepStatement
}

func loadClaim(load loader) claimStatements {
	return claimStatements{
		claim:             load("claim"),
		claimTx:           load("claim_tx"),
		claimOrdered:      load("claim_ordered"),
		orderedQueues:     load("ordered_queues"),
		resume:            load("resume"),
		releaseUnanswered: newUpkeep(load("release_unanswered"), 5, "AND $5::boolean IS NOT NULL"),
		probe:             load("probe"),
		priorities:        load("priorities"),
		transactions:      load("transactions"),
		extend:            load("extend"),
		reassign:          load("reassign"),
		claimHeads:        load("claim_heads"),
		claimTry:          load("claim_try"),
		lockRows:          load("lock_rows"),
		reclaim:           newUpkeep(load("reclaim"), 6, ""),
	}
}

// ruleStatements keep rules, and claim under them.
type ruleStatements struct {
	rules, rulesKnown, setRules, pauseRule, claimLimited, skipped, throttled, throttle, sweepTokens, tokens string
}

func loadRule(load loader) ruleStatements {
	return ruleStatements{
		rules:        load("rules"),
		rulesKnown:   load("rules_known"),
		setRules:     load("set_rules"),
		pauseRule:    load("pause_rule"),
		claimLimited: load("claim_limited"),
		skipped:      load("skipped"),
		throttled:    load("throttled"),
		throttle:     load("throttle"),
		sweepTokens:  load("sweep_tokens"),
		tokens:       load("tokens"),
	}
}

// settleStatements record what runs came to.
type settleStatements struct {
	settle, settleDone, settleDrop, settleLocked, settleOutput, progress, result string
}

func loadSettle(load loader) settleStatements {
	return settleStatements{
		settle:       load("settle"),
		settleDone:   load("settle_done"),
		settleDrop:   load("settle_drop"),
		settleLocked: load("settle_locked"),
		settleOutput: load("settle_output"),
		progress:     load("progress"),
		result:       load("result"),
	}
}

// sleepStatements serve workers that sleep.
type sleepStatements struct {
	sleep, unaware, deregister, sweepSleepers string
}

func loadSleep(load loader) sleepStatements {
	return sleepStatements{
		sleep:         load("sleep"),
		unaware:       load("unaware"),
		deregister:    load("deregister"),
		sweepSleepers: load("sweep_sleepers"),
	}
}

// controlStatements serve people who change jobs.
type controlStatements struct {
	choose, chooseEnded, pauseKinds, pausedKinds, audit, auditLog string
	cancel, edit, editPayload, redrive, delete                    lockingChange
}

func loadControl(load loader) controlStatements {
	return controlStatements{
		choose:      load("choose"),
		chooseEnded: load("choose_ended"),
		pauseKinds:  load("pause_kinds"),
		pausedKinds: load("paused_kinds"),
		audit:       load("audit"),
		auditLog:    load("audit_log"),
		cancel:      load.change("cancel"),
		edit:        withoutPayloadChange(load.change("edit")),
		editPayload: load.change("edit"),
		redrive:     load.change("redrive"),
		delete:      load.change("delete"),
	}
}

// inspectStatements list, count and prune jobs.
type inspectStatements struct {
	countAll, countSample, tableSize, stoppedIDs, backlog, list, listSlice, job, payload, readable, fewPending string
	prune                                                                                                      upkeepStatement
}

func loadInspect(load loader) inspectStatements {
	return inspectStatements{
		countAll:    load("count_all"),
		countSample: load("count_sample"),
		tableSize:   load("table_size"),
		stoppedIDs:  load("stopped_ids"),
		backlog:     load("backlog"),
		list:        load("list"),
		listSlice:   load("list_slice"),
		job:         load("job"),
		payload:     load("payload"),
		fewPending:  load("few_pending"),
		readable:    load("readable"),
		prune:       newPrune(load("prune")),
	}
}

// scheduleStatements keep schedules, and fire them.
type scheduleStatements struct {
	scheduleRead, scheduleWrite, schedulePause, scheduleNext, scheduleDue, scheduleFired, readableSchedules string
}

func loadSchedule(load loader) scheduleStatements {
	return scheduleStatements{
		scheduleRead:      load("schedule_read"),
		scheduleWrite:     load("schedule_write"),
		schedulePause:     load("schedule_pause"),
		scheduleNext:      load("schedule_next"),
		scheduleDue:       load("schedule_due"),
		scheduleFired:     load("schedule_fired"),
		readableSchedules: load("readable_schedules"),
	}
}

// fleetStatements keep which workers live, and what runs came to.
type fleetStatements struct {
	reportWorkers, workers, runs, sweepWorkers, stats, sweepStats string
}

func loadFleet(load loader) fleetStatements {
	return fleetStatements{
		reportWorkers: load("report_workers"),
		workers:       load("workers"),
		runs:          load("runs"),
		sweepWorkers:  load("sweep_workers"),
		stats:         load("stats"),
		sweepStats:    load("sweep_stats"),
	}
}

// change loads a statement that changes chosen jobs.
func (load loader) change(name string) lockingChange {
	text := load(name)
	return lockingChange{many: text, one: strings.Replace(text, " SKIP LOCKED\n", "\n", 1)}
}

// withoutPayloadChange returns sql/edit.sql without the line that changes payloads.
func withoutPayloadChange(edit lockingChange) lockingChange {
	const line = "        payload = $14::text::jsonb,\n"
	return lockingChange{many: strings.Replace(edit.many, line, "", 1), one: strings.Replace(edit.one, line, "", 1)}
}

// inSchema replaces the schema errand in the text of one of our files: where it qualifies a name,
// and where it names the notification channel. Neither needs escapes, thanks to sqlkit.CheckName.
func inSchema(text, schema string) string {
	return strings.NewReplacer("'errand'", "'"+schema+"'", "errand.", quoted(schema)+".").Replace(text)
}

func quoted(schema string) string { return `"` + schema + `"` }
