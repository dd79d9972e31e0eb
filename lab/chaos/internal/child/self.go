package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// parts are what a child can do, until ctx ends.
var parts = map[string]func(ctx context.Context, s *self) error{
	"claim":   claim,
	"commit":  commit,
	"enqueue": enqueue,
	"fuzz":    fuzz,
	"gateway": serve,
	"contend": contend,
	"migrate": migrate,
	"read":    read,
	"work":    work,
}

// finite are the parts that end by themselves.
var finite = []string{"claim", "enqueue", "fuzz", "contend", "migrate"}

// self is a child, as it sees itself.
type self struct {
	Spec
	peer    peer.Peer
	ledger  *ledger.Writer
	goAhead chan struct{} // closed when the parent has sent a line
	thawed  chan struct{} // closed when the process runs again after it was frozen
}

// Run does a child's part. spec is its Spec in JSON.
func Run(spec string) error {
	s := &self{goAhead: make(chan struct{}), thawed: make(chan struct{})}
	return s.run(spec)
}

func (s *self) run(spec string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := json.Unmarshal([]byte(spec), &s.Spec); err != nil {
		return err
	}
	part, ok := parts[s.Part]
	if !ok {
		return fmt.Errorf("no part %q", s.Part)
	}
	if s.peer, err = peer.Open(ctx, s.System, s.DSN, connections(s.Work)); err != nil {
		return err
	}
	if s.ledger, err = ledger.Open(ctx, s.Ledger, s.Name); err != nil {
		return errors.Join(err, s.peer.Close())
	}
	s.noteClock()
	go s.readInput()
	go s.watchForThaw()
	if _, err := fmt.Println("ready"); err != nil {
		return err
	}
	return errors.Join(part(ctx, s), s.ledger.Close(), s.peer.Close())
}

// connections returns how many connections a worker needs: one for the transaction of each handler,
// and some for itself.
func connections(w Work) int { return w.Concurrency + 5 }

// readInput reads the parent's lines. The process ends when its input ends.
func (s *self) readInput() {
	var once sync.Once
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		once.Do(func() { close(s.goAhead) })
	}
	os.Exit(3)
}

// watchForThaw notices when the process runs again after it was frozen.
func (s *self) watchForThaw() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCONT)
	<-signals
	close(s.thawed)
}

// exitOnError ends the process after an error, because what cannot be recorded must not go on.
func exitOnError(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
