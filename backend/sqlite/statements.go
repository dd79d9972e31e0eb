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
	enqueueOne, enqueueAlike, enqueue, enqueueKeyed, live string
	enqueueReplacing, giveUp                              string
	fence, nextPriority, due, dueBeyond, take             string
	groups, heads                                         string
	extend, settle, settleDone, settleDrop                string
	rulesVersion, rulesChanged, rules, setRule            string
	removeRule, running, nextGroup, groupPriority         string
	bucket, spend, throttle, costs                        string
	fullBuckets, sweepTokens                              string
	dueGroup, dueUngrouped                                string
	expired, reclaim, complete, resume                    string
	sleep, lastID, bumpID                                 string
	choose, cancel, edit, redrive, noteCancel, cancels    string
	pauseKind, resumeKind, pausedKinds                    string
	old, archive, prune                                   string
	backlog, idRange, countAll, countFew, countSample     string
	list, listPending, job                                string
	keepOutput, keepProgress, result                      string
	orphans, removeResults                                string

	scheduleLock, scheduleRead, scheduleWrite, scheduleDelete string
	scheduleNext, scheduleDue, scheduleFired                  string
}

func loadStatements(prefix string) statements {
	load := func(name string) string {
		return withPrefix(uncommented(sqlkit.ReadFile(sqlFiles, "sql/"+name+".sql")), prefix)
	}
	return statements{
		keepOutput:       load("keep_output"),
		keepProgress:     load("keep_progress"),
		result:           load("result"),
		orphans:          load("orphans"),
		removeResults:    load("remove_results"),
		enqueueOne:       load("enqueue_one"),
		enqueueAlike:     load("enqueue_alike"),
		enqueue:          load("enqueue"),
		enqueueKeyed:     load("enqueue_keyed"),
		live:             load("live"),
		enqueueReplacing: load("enqueue_replacing"),
		giveUp:           load("give_up"),
		fence:            load("fence"),
		nextPriority:     load("next_priority"),
		groups:           load("groups"),
		heads:            load("heads"),
		due:              load("due"),
		dueBeyond:        load("due_beyond"),
		rulesVersion:     load("rules_version"),
		rulesChanged:     load("rules_changed"),
		rules:            load("rules"),
		setRule:          load("set_rule"),
		removeRule:       load("remove_rule"),
		running:          load("running"),
		bucket:           load("bucket"),
		spend:            load("spend"),
		throttle:         load("throttle"),
		costs:            load("costs"),
		fullBuckets:      load("full_buckets"),
		sweepTokens:      load("sweep_tokens"),
		nextGroup:        load("next_group"),
		groupPriority:    load("next_priority_group"),
		dueGroup:         load("due_group"),
		dueUngrouped:     load("due_ungrouped"),
		take:             load("take"),
		extend:           load("extend"),
		settle:           load("settle"),
		settleDone:       load("settle_done"),
		settleDrop:       load("settle_drop"),
		expired:          load("expired"),
		reclaim:          load("reclaim"),
		complete:         load("complete"),
		resume:           load("resume"),
		sleep:            load("sleep"),
		lastID:           load("last_id"),
		bumpID:           load("bump_id"),
		redrive:          load("redrive"),
		choose:           load("choose"),
		cancel:           load("cancel"),
		edit:             load("edit"),
		noteCancel:       load("note_cancel"),
		cancels:          load("cancels"),
		pauseKind:        load("pause_kind"),
		resumeKind:       load("resume_kind"),
		pausedKinds:      load("paused_kinds"),
		old:              load("old"),
		archive:          load("archive"),
		prune:            load("prune"),
		backlog:          load("backlog"),
		idRange:          load("id_range"),
		countAll:         load("count_all"),
		countFew:         load("count_few"),
		countSample:      load("count_sample"),
		list:             load("list"),
		listPending:      load("list_pending"),
		scheduleLock:     load("schedule_lock"),
		scheduleRead:     load("schedule_read"),
		scheduleWrite:    load("schedule_write"),
		scheduleDelete:   load("schedule_delete"),
		scheduleNext:     load("schedule_next"),
		scheduleDue:      load("schedule_due"),
		scheduleFired:    load("schedule_fired"),
		job:              load("job"),
	}
}

// hot returns the statements that each connection keeps prepared: the ones that workers and
// enqueuers run constantly.
func (s statements) hot() []string {
	return []string{
		s.enqueueOne, s.enqueueAlike, s.enqueue, s.fence, s.nextPriority, s.due, s.take, s.groups, s.heads, s.extend,
		s.settle, s.settleDone, withoutReturning(s.settleDone), s.settleDrop, withoutReturning(s.settleDrop),
		s.expired, s.sleep, s.lastID, s.bumpID, s.prune,
	}
}

// withoutReturning returns a statement without its RETURNING clause.
func withoutReturning(statement string) string {
	changes, _, _ := strings.Cut(statement, "\nRETURNING")
	return changes
}

// uncommented returns text without its comment lines, which SQLite would parse each time.
func uncommented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// withPrefix replaces errand_, which begins each name in our SQL files, with prefix. checkPrefix
// has made sure that the prefix needs no quotes.
func withPrefix(text, prefix string) string {
	return strings.ReplaceAll(text, defaultPrefix, prefix)
}
