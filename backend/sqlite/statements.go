package sqlite

import (
	"embed"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
)

//go:embed sql
var sqlFiles embed.FS

// statements holds the text of each file in the folder sql, with the prefix filled in.
type statements struct {
	enqueueStatements
	claimStatements
	ruleStatements
	settleStatements
	sleepStatements
	controlStatements
	pruneStatements
	inspectStatements
	scheduleStatements
	fleetStatements
}

// A loader returns the text of a file.
type loader func(name string) string

func loadStatements(prefix string) statements {
	load := func(name string) string {
		return withPrefix(onlyStatement(sqlkit.ReadFile(sqlFiles, "sql/"+name+".sql")), prefix)
	}
	return statements{
		loadEnqueue(load),
		loadClaim(load),
		loadRule(load),
		loadSettle(load),
		loadSleep(load),
		loadControl(load),
		loadPrune(load),
		loadInspect(load),
		loadSchedule(load),
		loadFleet(load),
	}
}

// enqueueStatements write jobs.
type enqueueStatements struct {
	enqueueOne, enqueueAlike, enqueue, enqueueKeyed, enqueueReplacing, giveUp, live string
	rememberSources, forgetSources, keepPast                                        string
}

func loadEnqueue(load loader) enqueueStatements {
	return enqueueStatements{
		enqueueOne:       load("enqueue_one"),
		enqueueAlike:     load("enqueue_alike"),
		enqueue:          load("enqueue"),
		enqueueKeyed:     load("enqueue_keyed"),
		enqueueReplacing: load("enqueue_replacing"),
		giveUp:           load("give_up"),
		live:             load("live"),
		rememberSources:  load("remember_sources"),
		forgetSources:    load("forget_sources"),
		keepPast:         load("keep_past"),
	}
}

// claimStatements claim jobs, and hold them.
type claimStatements struct {
	fence, nextPriority, due, dueBeyond, groups, heads, take, complete, resume string
	extend, reassign, expired, reclaim                                         string
}

func loadClaim(load loader) claimStatements {
	return claimStatements{
		fence:        load("fence"),
		nextPriority: load("next_priority"),
		due:          load("due"),
		dueBeyond:    load("due_beyond"),
		groups:       load("groups"),
		heads:        load("heads"),
		take:         load("take"),
		complete:     load("complete"),
		resume:       load("resume"),
		extend:       load("extend"),
		reassign:     load("reassign"),
		expired:      load("expired"),
		reclaim:      load("reclaim"),
	}
}

// ruleStatements keep rules.
type ruleStatements struct {
	rulesVersion, rulesChanged, rules, setRule, pauseRule, removeRule, running string
	nextGroup, groupPriority, dueGroup, dueUngrouped, skipUngrouped            string
	bucket, spend, throttled, throttle                                         string
	costs, buckets, sweepTokens                                                string
}

func loadRule(load loader) ruleStatements {
	return ruleStatements{
		rulesVersion:  load("rules_version"),
		rulesChanged:  load("rules_changed"),
		rules:         load("rules"),
		setRule:       load("set_rule"),
		pauseRule:     load("pause_rule"),
		removeRule:    load("remove_rule"),
		running:       load("running"),
		nextGroup:     load("next_group"),
		groupPriority: load("next_priority_group"),
		dueGroup:      load("due_group"),
		dueUngrouped:  load("due_ungrouped"),
		skipUngrouped: load("skip_ungrouped"),
		bucket:        load("bucket"),
		spend:         load("spend"),
		throttled:     load("throttled"),
		throttle:      load("throttle"),
		costs:         load("costs"),
		buckets:       load("buckets"),
		sweepTokens:   load("sweep_tokens"),
	}
}

// settleStatements record what runs came to.
type settleStatements struct {
	settle, settleDone, settleDrop, keepOutput, keepProgress, result string
}

func loadSettle(load loader) settleStatements {
	return settleStatements{
		settle:       load("settle"),
		settleDone:   load("settle_done"),
		settleDrop:   load("settle_drop"),
		keepOutput:   load("keep_output"),
		keepProgress: load("keep_progress"),
		result:       load("result"),
	}
}

// sleepStatements serve workers that sleep.
type sleepStatements struct {
	sleep, lastID, bumpID string
}

func loadSleep(load loader) sleepStatements {
	return sleepStatements{
		sleep:  load("sleep"),
		lastID: load("last_id"),
		bumpID: load("bump_id"),
	}
}

// controlStatements serve people who change jobs.
type controlStatements struct {
	choose, chooseEnded, cancel, edit, redrive, delete, noteCancel, cancels string
	pauseKind, resumeKind, pausedKinds, audit, auditLog                     string
}

func loadControl(load loader) controlStatements {
	return controlStatements{
		choose:      load("choose"),
		chooseEnded: load("choose_ended"),
		cancel:      load("cancel"),
		edit:        load("edit"),
		redrive:     load("redrive"),
		delete:      load("delete"),
		noteCancel:  load("note_cancel"),
		cancels:     load("cancels"),
		pauseKind:   load("pause_kind"),
		resumeKind:  load("resume_kind"),
		pausedKinds: load("paused_kinds"),
		audit:       load("audit"),
		auditLog:    load("audit_log"),
	}
}

// pruneStatements delete old jobs.
type pruneStatements struct {
	old, archive, prune, orphans, removeResults string
}

func loadPrune(load loader) pruneStatements {
	return pruneStatements{
		old:           load("old"),
		archive:       load("archive"),
		prune:         load("prune"),
		orphans:       load("orphans"),
		removeResults: load("remove_results"),
	}
}

// inspectStatements list and count jobs.
type inspectStatements struct {
	backlog, idRange, countAll, countFew, countSample, list, listPending, fewPending, job string
}

func loadInspect(load loader) inspectStatements {
	return inspectStatements{
		backlog:     load("backlog"),
		idRange:     load("id_range"),
		countAll:    load("count_all"),
		countFew:    load("count_few"),
		countSample: load("count_sample"),
		list:        load("list"),
		listPending: load("list_pending"),
		fewPending:  load("few_pending"),
		job:         load("job"),
	}
}

// scheduleStatements keep schedules, and fire them.
type scheduleStatements struct {
	scheduleLock, scheduleRead, scheduleWrite, scheduleDelete, scheduleNext string
	scheduleDue, scheduleFired                                              string
}

func loadSchedule(load loader) scheduleStatements {
	return scheduleStatements{
		scheduleLock:   load("schedule_lock"),
		scheduleRead:   load("schedule_read"),
		scheduleWrite:  load("schedule_write"),
		scheduleDelete: load("schedule_delete"),
		scheduleNext:   load("schedule_next"),
		scheduleDue:    load("schedule_due"),
		scheduleFired:  load("schedule_fired"),
	}
}

// fleetStatements keep which workers live.
type fleetStatements struct {
	reportWorker, removeWorker, workers, runs, forgottenWorkers, sweepWorkers string
	stats, writeStats, oldStats, sweepStats                                   string
}

func loadFleet(load loader) fleetStatements {
	return fleetStatements{
		reportWorker:     load("report_worker"),
		removeWorker:     load("remove_worker"),
		workers:          load("workers"),
		runs:             load("runs"),
		forgottenWorkers: load("forgotten_workers"),
		sweepWorkers:     load("sweep_workers"),
		stats:            load("stats"),
		writeStats:       load("write_stats"),
		oldStats:         load("old_stats"),
		sweepStats:       load("sweep_stats"),
	}
}

// hot returns the statements that each connection keeps prepared: the ones that workers and
// enqueuers run constantly.
func (s statements) hot() []string {
	return []string{
		s.enqueueOne, s.enqueueAlike, s.enqueue, s.fence, s.nextPriority, s.due, s.take, s.groups, s.heads, s.extend,
		s.running, s.nextGroup, s.groupPriority, s.dueGroup,
		s.settle, s.settleDone, withoutReturning(s.settleDone), s.settleDrop, withoutReturning(s.settleDrop),
		s.expired, s.sleep, s.lastID, s.bumpID, s.prune, s.writeStats,
	}
}

// withoutReturning returns a statement without its RETURNING clause.
func withoutReturning(statement string) string {
	changes, _, _ := strings.Cut(statement, "\nRETURNING")
	return changes
}

// onlyStatement returns the statement of a file. It leaves out comment lines, which SQLite would
// parse each time, and what follows the statement: glebarez/go-sqlite takes it for another one.
func onlyStatement(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			b.WriteString(line)
		}
	}
	return strings.TrimSuffix(strings.TrimSpace(b.String()), ";")
}

// withPrefix replaces errand_, which begins each name in our SQL files, with prefix. checkPrefix
// has made sure that the prefix needs no quotes.
func withPrefix(text, prefix string) string {
	return strings.ReplaceAll(text, defaultPrefix, prefix)
}
