package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// service makes a schema in the script's database: service SCHEMA WORD. In all that is in it, word
// is a part of the name.
func service(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: service SCHEMA WORD")
	}
	d, err := dburl.Open(ts.Getenv("DATABASE_URL"), dburl.Options{Schema: args[0]})
	ts.Check(err)
	defer d.Close()
	ctx := context.Background()
	ts.Check(d.Migrate(ctx))
	ts.Check(seedService(ctx, d, args[1]))
}

// seedService makes six jobs: 1 completed, 2 and 3 dead, 4 running, 5 and 6 pending. There are also
// a schedule, a rule, and a worker with what its runs came to.
func seedService(ctx context.Context, d *dburl.Database, word string) error {
	name := word + "-queue"
	var jobs []*queue.Job
	for range 6 {
		jobs = append(jobs, &queue.Job{Kind: word + ".kind", Queue: name, Group: word + "-group"})
	}
	jobs[5].Key = word + "-key"
	if err := d.Queue.Enqueue(ctx, nil, jobs...); err != nil {
		return err
	}
	claimed, err := d.Queue.Claim(ctx, queue.ClaimRequest{Queues: []string{name}, Limit: 4, Lease: time.Hour, Worker: word + "-worker"})
	if err != nil {
		return err
	}
	failure := errors.New(word + " failed")
	_, err = d.Queue.Settle(ctx, nil, queue.Outcome{Job: claimed[0], Action: queue.Done},
		queue.Outcome{Job: claimed[1], Action: queue.Dead, Err: failure}, queue.Outcome{Job: claimed[2], Action: queue.Dead, Err: failure})
	if err != nil {
		return err
	}
	fleet, _ := driver.As[driver.Fleet](d.Queue)
	worker := driver.WorkerInfo{Name: word + "-worker", Queues: []string{name}, Kinds: []string{word + ".kind"}, Concurrency: 1}
	runs := driver.MinuteStats{Queue: name, Kind: word + ".kind", Stats: queue.Stats{Done: 1, Dead: 2}}
	if err := fleet.ReportWorkers(ctx, driver.WorkerReport{WorkerInfo: worker, Stats: []driver.MinuteStats{runs}}); err != nil {
		return err
	}
	scheduler, _ := driver.As[driver.Scheduler](d.Queue)
	nightly := queue.Schedule{Name: word + "-nightly", Spec: "0 3 * * *", Job: &queue.Job{Kind: word + ".kind", Queue: name}}
	if err := scheduler.SetSchedules(ctx, nil, nightly); err != nil {
		return err
	}
	ruler, _ := driver.As[driver.Ruler](d.Queue)
	return ruler.SetRules(ctx, nil, queue.Rule{Queue: name, Running: 5})
}

// only runs a command, and fails unless standard output has the word and neither stream has the
// other one: only WORD OTHER CODE PROGRAM ARG...
func only(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: only WORD OTHER CODE PROGRAM ARG...")
	}
	exits(ts, false, args[2:])
	out := ts.ReadFile("stdout")
	if !strings.Contains(out, args[0]) {
		ts.Fatalf("no %s in %q", args[0], out)
	}
	if text := out + ts.ReadFile("stderr"); strings.Contains(text, args[1]) {
		ts.Fatalf("%s is in %q", args[1], text)
	}
}

// TestServicesComplete: the script of two services runs every command that there is. tail, web and
// gateway are in TestServicesLive.
func TestServicesComplete(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("testdata/schemas.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		isLeaf := cmd.HasParent() && !cmd.HasSubCommands() && cmd.IsAvailableCommand()
		if isLeaf && !slices.Contains([]string{"errand tail", "errand web", "errand gateway"}, path) && !regexp.MustCompile(path+`\b`).Match(script) {
			t.Errorf("testdata/schemas.txtar does not run %s", path)
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot(&cli.App{}))
}

// TestServicesLive: tail, web and gateway of one schema show nothing of another in the same
// database.
func TestServicesLive(t *testing.T) {
	t.Parallel()
	database := clitest.Backends[1].URL(t, t.TempDir())
	words := map[string]string{"Orders": "apples", "user": "pears"}
	opened := map[string]*dburl.Database{}
	for schema, word := range words {
		d, err := dburl.Open(database, dburl.Options{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := seedService(t.Context(), d, word); err != nil {
			t.Fatal(err)
		}
		opened[schema] = d
	}
	for schema, other := range map[string]string{"Orders": "user", "user": "Orders"} {
		text := tailUntil(t, database, schema, words[schema], func() error {
			for _, name := range []string{other, schema} {
				if err := opened[name].Queue.Enqueue(t.Context(), nil, &queue.Job{Kind: words[name] + ".kind"}); err != nil {
					return err
				}
			}
			return nil
		})
		if !strings.Contains(text, words[schema]) || strings.Contains(text, words[other]) {
			t.Errorf("tail of %s shows %q", schema, text)
		}
		testWebOf(t, startWeb(t, database, "--schema", schema), words[schema], words[other])
		g := startGateway(t, database, "--schema", schema)
		g.want(http.StatusOK, "jobs", "POST", "/v1/enqueue", shopSecret, `{"jobs": [{"queue": "orders", "kind": "`+words[schema]+`.sent", "payload": 1}]}`)
		for name, want := range map[string]int{schema: 1, other: 0} {
			inspector, _ := driver.As[driver.Inspector](opened[name].Queue)
			if sent, _, err := inspector.Jobs(t.Context(), queue.Filter{Queue: "orders", Kind: words[schema] + ".sent"}); err != nil || len(sent) != want {
				t.Errorf("the gateway of %s: %d jobs in %s, %v; want %d", schema, len(sent), name, err, want)
			}
		}
	}
}

// tailUntil calls enqueue until errand tail shows the word, and returns what tail has shown.
func tailUntil(t *testing.T, database, schema, word string, enqueue func() error) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := new(lockedBuffer)
	a := &cli.App{Out: out, Err: new(bytes.Buffer), Getenv: clitest.Env(database)}
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, a, []string{"tail", "--every", "100ms", "--schema", schema}) }()
	for !strings.Contains(out.String(), word) && ctx.Err() == nil {
		if err := enqueue(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	cancel()
	<-ended
	return out.String()
}

// testWebOf reads the pages that links lead to.
func testWebOf(t *testing.T, w *webProcess, word, other string) {
	t.Helper()
	link := regexp.MustCompile(`href="([^"#?]+)`)
	pages, shown := []string{""}, 0
	seen := map[string]bool{"": true}
	for i := 0; i < len(pages) && i < 40; i++ {
		at, err := w.url.Parse(pages[i])
		if err != nil {
			t.Fatal(err)
		}
		_, _, body := w.request("GET", at.Path)
		if strings.Contains(body, other) {
			t.Errorf("%s has %s", pages[i], other)
		}
		if strings.Contains(body, word) {
			shown++
		}
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			to, err := at.Parse(m[1])
			if err == nil && strings.HasPrefix(to.Path, w.url.Path) && !seen[to.Path] {
				seen[to.Path] = true
				pages = append(pages, to.Path)
			}
		}
	}
	if shown < 5 {
		t.Errorf("%d of the pages %q have %s, want some", shown, pages, word)
	}
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
