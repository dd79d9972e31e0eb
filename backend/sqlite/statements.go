package sqlite

import (
	"embed"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
)

//go:embed sql
var sqlFiles embed.FS

// statements are the files of the sql folder with the prefix in its place.
type statements struct {
	enqueueOne, enqueueAlike, enqueue, enqueueKeyed, live string
	fence, level, due, dueBeyond, take                    string
	extend, settle, settleDone, settleDrop                string
	expired, reclaim, complete, resume                    string
	sleep, seen, rouse                                    string
	dead, redrive, old, archive, prune                    string
	backlog, span, countAll, countFew, countSample        string
	list, listPending, job                                string
}

func loadStatements(prefix string) statements {
	load := func(name string) string {
		return withPrefix(uncommented(sqlkit.ReadFile(sqlFiles, "sql/"+name+".sql")), prefix)
	}
	return statements{
		enqueueOne:   load("enqueue_one"),
		enqueueAlike: load("enqueue_alike"),
		enqueue:      load("enqueue"),
		enqueueKeyed: load("enqueue_keyed"),
		live:         load("live"),
		fence:        load("fence"),
		level:        load("level"),
		due:          load("due"),
		dueBeyond:    load("due_beyond"),
		take:         load("take"),
		extend:       load("extend"),
		settle:       load("settle"),
		settleDone:   load("settle_done"),
		settleDrop:   load("settle_drop"),
		expired:      load("expired"),
		reclaim:      load("reclaim"),
		complete:     load("complete"),
		resume:       load("resume"),
		sleep:        load("sleep"),
		seen:         load("seen"),
		rouse:        load("rouse"),
		dead:         load("dead"),
		redrive:      load("redrive"),
		old:          load("old"),
		archive:      load("archive"),
		prune:        load("prune"),
		backlog:      load("backlog"),
		span:         load("span"),
		countAll:     load("count_all"),
		countFew:     load("count_few"),
		countSample:  load("count_sample"),
		list:         load("list"),
		listPending:  load("list_pending"),
		job:          load("job"),
	}
}

// hot are the statements that are worth being kept prepared on each connection:
// those of a worker's and an enqueuer's every day.
func (s statements) hot() []string {
	return []string{
		s.enqueueOne, s.enqueueAlike, s.enqueue, s.fence, s.level, s.due, s.take, s.extend,
		s.settle, s.settleDone, withoutReturning(s.settleDone), s.settleDrop, withoutReturning(s.settleDrop), s.expired, s.sleep, s.seen, s.rouse, s.prune,
	}
}

// withoutReturning is a statement without what it returns.
func withoutReturning(statement string) string {
	changes, _, _ := strings.Cut(statement, "\nRETURNING")
	return changes
}

// uncommented is text without its lines of comment: SQLite would read them each time.
func uncommented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// withPrefix writes prefix wherever text, a file of ours, begins a name with
// errand_. checkPrefix has made sure that it needs no quotes.
func withPrefix(text, prefix string) string {
	return strings.ReplaceAll(text, defaultPrefix, prefix)
}
