package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress shows how the day goes: on a terminal as one line that changes, and
// elsewhere as a line a second.
type progress struct {
	out      io.Writer
	terminal bool
	shown    time.Time
}

// eraseLine takes the cursor to the start of a terminal's line and clears it.
const eraseLine = "\r\033[K"

func newProgress(f *os.File) *progress {
	info, err := f.Stat()
	return &progress{out: f, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// status replaces the line.
func (p *progress) status(line string) {
	if p.terminal {
		fmt.Fprint(p.out, eraseLine, line)
	} else if time.Since(p.shown) >= time.Second {
		fmt.Fprintln(p.out, line)
		p.shown = time.Now()
	}
}

// event writes a line that stays.
func (p *progress) event(format string, args ...any) {
	if p.terminal {
		fmt.Fprint(p.out, eraseLine)
	}
	fmt.Fprintf(p.out, format+"\n", args...)
}

// end leaves the line as it is, and goes on below it.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}

// show shows how far the day has got.
func (d *day) show() {
	committed, declined := d.customers.told()
	d.progress.status(fmt.Sprintf("%4.1fs  orders %d, rolled back %d  %s",
		time.Since(d.began).Seconds(), len(committed), len(declined), d.receiver))
}
