package postgres

import (
	"embed"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
)

//go:embed sql
var sqlFiles embed.FS

// statements are the files of the sql folder with the schema in its place.
type statements struct {
	enqueue, enqueueOne, enqueueKeyed, enqueuePlain                     string
	claim, claimTx, resume, probe, extend, reclaim, sleep, wake, forget string
	settle, settleDone, settleDrop                                      string
	redrive, prune, countAll, countSample, backlog, list, job, payload  string
	listSlice, giveBack, priorities, transactions, passed               string
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
		passed:       load("passed"),
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
		giveBack:     load("give_back"),
	}
}

// inSchema writes schema wherever text, a file of ours, says errand: as the
// qualifier of a name, and as the name of the notification channel. sqlkit.CheckName
// has made sure that neither quoting needs escapes.
func inSchema(text, schema string) string {
	return strings.NewReplacer("'errand'", "'"+schema+"'", "errand.", quoted(schema)+".").Replace(text)
}

func quoted(schema string) string { return `"` + schema + `"` }
