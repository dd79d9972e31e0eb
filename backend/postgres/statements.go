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
	enqueue, enqueueOne, enqueueKeyed, enqueuePlain                     string
	claim, claimTx, resume, probe, extend, reclaim, sleep, wake, forget string
	settle, settleDone, settleDrop                                      string
	redrive, prune, countAll, countSample, backlog, list, job, payload  string
	listSlice, releaseLost, priorities, transactions, skipped, readable string
}

func loadStatements(schema string) statements {
	load := func(name string) string { return inSchema(sqlkit.ReadFile(sqlFiles, "sql/"+name+".sql"), schema) }
	return statements{
		enqueue:      load("enqueue"),
		enqueueOne:   load("enqueue_one"),
		enqueueKeyed: load("enqueue_one_keyed"),
		enqueuePlain: load("enqueue_plain"),
		claim:        load("claim"),
		claimTx:      load("claim_tx"),
		resume:       load("resume"),
		probe:        load("probe"),
		priorities:   load("priorities"),
		transactions: load("transactions"),
		skipped:      load("skipped"),
		extend:       load("extend"),
		settle:       load("settle"),
		settleDone:   load("settle_done"),
		settleDrop:   load("settle_drop"),
		reclaim:      load("reclaim"),
		sleep:        load("sleep"),
		wake:         load("wake"),
		forget:       load("forget"),
		redrive:      load("redrive"),
		prune:        load("prune"),
		countAll:     load("count_all"),
		countSample:  load("count_sample"),
		backlog:      load("backlog"),
		list:         load("list"),
		listSlice:    load("list_slice"),
		job:          load("job"),
		payload:      load("payload"),
		readable:     load("readable"),
		releaseLost:  load("release_lost"),
	}
}

// inSchema replaces the schema errand in the text of one of our files: where it qualifies a name,
// and where it names the notification channel. Neither needs escapes, thanks to sqlkit.CheckName.
func inSchema(text, schema string) string {
	return strings.NewReplacer("'errand'", "'"+schema+"'", "errand.", quoted(schema)+".").Replace(text)
}

func quoted(schema string) string { return `"` + schema + `"` }
