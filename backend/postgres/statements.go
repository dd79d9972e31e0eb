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
	enqueue, enqueueOne, enqueueKeyed, enqueuePlain               string
	enqueueOneGrouped, enqueuePlainGrouped                        string
	enqueueReplacing                                              string
	claim, claimTx, resume, releaseUnanswered                     string
	claimOrdered, orderedQueues                                   string
	claimLimited, rulesKnown, rules, setRules, pauseRule          string
	throttle, sweepTokens                                         string
	probe, priorities, transactions, skipped                      string
	extend, reclaim, settle, settleDone, settleDrop, settleLocked string
	settleOutput, progress, result                                string
	sleep, deregister, sweepSleepers                              string
	prune, countAll, countSample, backlog                         string
	scheduleRead, scheduleWrite, scheduleNext                     string
	scheduleDue, scheduleFired                                    string
	list, listSlice, job, payload, readable                       string
	choose, chooseEnded, pauseKinds, pausedKinds                  string
	reportWorker, workers, runs, sweepWorkers, stats, sweepStats  string
	audit, auditLog                                               string
	cancel, edit, editPayload, redrive, delete                    lockingChange
}

func loadStatements(schema string) statements {
	load := func(name string) string { return inSchema(sqlkit.ReadFile(sqlFiles, "sql/"+name+".sql"), schema) }
	loadChange := func(name string) lockingChange {
		text := load(name)
		return lockingChange{many: text, one: strings.Replace(text, " SKIP LOCKED\n", "\n", 1)}
	}
	return statements{
		choose:              load("choose"),
		chooseEnded:         load("choose_ended"),
		audit:               load("audit"),
		auditLog:            load("audit_log"),
		pauseKinds:          load("pause_kinds"),
		pausedKinds:         load("paused_kinds"),
		cancel:              loadChange("cancel"),
		edit:                withoutPayloadChange(loadChange("edit")),
		editPayload:         loadChange("edit"),
		redrive:             loadChange("redrive"),
		delete:              loadChange("delete"),
		enqueue:             load("enqueue"),
		enqueueOne:          load("enqueue_one"),
		enqueueKeyed:        load("enqueue_one_keyed"),
		enqueueReplacing:    load("enqueue_replacing"),
		enqueuePlain:        load("enqueue_plain"),
		enqueueOneGrouped:   load("enqueue_one_grouped"),
		enqueuePlainGrouped: load("enqueue_plain_grouped"),
		claim:               load("claim"),
		claimLimited:        load("claim_limited"),
		rulesKnown:          load("rules_known"),
		throttle:            load("throttle"),
		sweepTokens:         load("sweep_tokens"),
		rules:               load("rules"),
		setRules:            load("set_rules"),
		pauseRule:           load("pause_rule"),
		claimTx:             load("claim_tx"),
		claimOrdered:        load("claim_ordered"),
		orderedQueues:       load("ordered_queues"),
		resume:              load("resume"),
		probe:               load("probe"),
		priorities:          load("priorities"),
		transactions:        load("transactions"),
		skipped:             load("skipped"),
		extend:              load("extend"),
		settle:              load("settle"),
		settleDone:          load("settle_done"),
		settleDrop:          load("settle_drop"),
		settleLocked:        load("settle_locked"),
		reclaim:             load("reclaim"),
		settleOutput:        load("settle_output"),
		progress:            load("progress"),
		result:              load("result"),
		sleep:               load("sleep"),
		deregister:          load("deregister"),
		sweepSleepers:       load("sweep_sleepers"),
		prune:               load("prune"),
		countAll:            load("count_all"),
		countSample:         load("count_sample"),
		backlog:             load("backlog"),
		list:                load("list"),
		listSlice:           load("list_slice"),
		job:                 load("job"),
		payload:             load("payload"),
		readable:            load("readable"),
		releaseUnanswered:   load("release_unanswered"),
		scheduleRead:        load("schedule_read"),
		scheduleWrite:       load("schedule_write"),
		scheduleNext:        load("schedule_next"),
		scheduleDue:         load("schedule_due"),
		scheduleFired:       load("schedule_fired"),
		reportWorker:        load("report_worker"),
		workers:             load("workers"),
		runs:                load("runs"),
		sweepWorkers:        load("sweep_workers"),
		stats:               load("stats"),
		sweepStats:          load("sweep_stats"),
	}
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
