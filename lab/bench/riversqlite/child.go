package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// child is this process as bench sees it.
type child struct {
	saying       sync.Mutex
	handled, sum atomic.Int64
	cpu          float64 // seconds used before it began
	written      int64   // bytes, likewise
}

// result is what it says at its end.
type result struct {
	Handled int64              `json:"handled"`
	Sum     int64              `json:"sum"`
	CPU     float64            `json:"cpu"`
	PeakRSS int64              `json:"peak_rss"`
	Written int64              `json:"written"`
	Figures map[string]float64 `json:"figures,omitempty"`
}

// measure does a part and says its result.
func measure(ctx context.Context, part func(context.Context, *child) (map[string]float64, error)) error {
	c := &child{}
	figures, err := part(ctx, c)
	if err != nil {
		return err
	}
	text, err := json.Marshal(result{
		Handled: c.handled.Load(), Sum: c.sum.Load(), CPU: cpu() - c.cpu, PeakRSS: field("/proc/self/status", "VmHWM:") << 10,
		Written: written() - c.written, Figures: figures,
	})
	if err != nil {
		return err
	}
	return c.say("result " + string(text))
}

// begin says that the child is ready and returns when it may go, with a context that ends with the input.
func (c *child) begin(ctx context.Context) (context.Context, error) {
	if err := c.say("ready"); err != nil {
		return nil, err
	}
	input := bufio.NewReader(os.Stdin)
	if _, err := input.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("told to end before it began: %w", err)
	}
	c.cpu, c.written = cpu(), written()
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, input) // its end is what matters
	}()
	go c.tellCounts()
	return ctx, nil
}

// tellCounts tells how many jobs have been handled, where that has changed, until nobody listens.
func (c *child) tellCounts() {
	told := int64(0)
	for range time.Tick(2 * time.Millisecond) {
		n := c.handled.Load()
		if n == told {
			continue
		}
		if c.say("count "+strconv.FormatInt(n, 10)) != nil {
			return
		}
		told = n
	}
}

func (c *child) say(line string) error {
	c.saying.Lock()
	defer c.saying.Unlock()
	_, err := fmt.Println(line)
	return err
}

// count counts a job that has been handled.
func (c *child) count(number int) {
	c.sum.Add(int64(number))
	c.handled.Add(1)
}

// cpu is the processor time used so far, in seconds.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// written is how many bytes were written to disk so far.
func written() int64 { return field("/proc/self/io", "write_bytes:") }

// field is the number after a name at the beginning of a line of a file, or 0.
func field(path, name string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n
		}
	}
	return 0
}
