// Package progress shows how far long work is: as a bar on a terminal, and elsewhere as a line
// every few seconds. Work that takes less than two seconds shows nothing.
//
// It is a module of its own, so that errand's users do not get the library that draws the bar.
package progress

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const (
	// quiet is how long work may take without a word.
	quiet = 2 * time.Second
	// lineEvery is how much time is between two lines at least.
	lineEvery = 5 * time.Second
	// drawEvery is the same for a bar on a terminal.
	drawEvery = 100 * time.Millisecond
)

// Bar shows how far a work is. Its methods may be called concurrently. Nil is a Bar that shows
// nothing.
type Bar struct {
	w     io.Writer
	bar   *progressbar.ProgressBar // nil if w is no terminal
	total int
	began time.Time

	done atomic.Int64
	next atomic.Int64 // when it is to be shown again, in nanoseconds since began

	columns int // of the terminal

	mu      sync.Mutex
	what    string
	isShown bool // something of it was written
	shown   int  // how many parts it showed as done
}

// New returns a Bar for work that has total parts. 0 means that nobody knows how many. what names
// the work. w gets lines, unless it is a terminal.
func New(w io.Writer, what string, total int) *Bar {
	b := &Bar{w: w, total: total, began: time.Now(), what: what}
	b.next.Store(int64(quiet))
	if columns, ok := terminal(w); ok {
		b.drawOn(w, columns)
	}
	return b
}

// barWidth is how long the bar itself is, in columns.
const barWidth = 20

// drawOn makes it a bar on a terminal.
func (b *Bar) drawOn(terminal io.Writer, columns int) {
	b.columns = columns
	most := b.total
	if most == 0 {
		most = -1
	}
	b.bar = progressbar.NewOptions(most,
		progressbar.OptionSetWriter(terminal), progressbar.OptionSetDescription(b.name()), progressbar.OptionSetWidth(barWidth),
		progressbar.OptionShowCount(), progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0)) // nothing is written but by the methods of Bar
	b.bar.StartWithoutRender()
}

// name returns what is worked on, so short that the bar fits into a line of the terminal. A longer
// line could not be erased.
func (b *Bar) name() string {
	figures := len(" 100% || (/) [10h59m59s:10h59m59s]") + 2*len(strconv.Itoa(b.total))
	name, most := []rune(b.what), max(b.columns-barWidth-figures, 1)
	return string(name[:min(len(name), most)])
}

// terminal returns how wide the terminal is that w is, and whether it is one.
func terminal(w io.Writer) (columns int, ok bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return 0, false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns == 0 {
		columns = 80
	}
	return columns, true
}

// Add tells that n more parts are done. Most calls only count.
func (b *Bar) Add(n int) {
	if b != nil {
		b.done.Add(int64(n))
		b.show()
	}
}

// Set tells that n parts are done in all. A call with the same n shows how much time has passed.
func (b *Bar) Set(n int) {
	if b != nil {
		b.done.Store(int64(n))
		b.show()
	}
}

// Describe changes the name of the work.
func (b *Bar) Describe(what string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.what = what
	b.mu.Unlock()
	b.show()
}

// show shows how far the work is, if it is time.
func (b *Bar) show() {
	passed := time.Since(b.began)
	next := b.next.Load()
	every := lineEvery
	if b.bar != nil {
		every = drawEvery
	}
	if int64(passed) < next || !b.next.CompareAndSwap(next, int64(passed+every)) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isShown = true
	b.draw()
}

// draw writes the bar, or the line.
func (b *Bar) draw() {
	done := int(b.done.Load())
	b.shown = done
	if b.bar != nil {
		b.bar.Describe(b.name())
		_ = b.bar.Set(done) // the terminal is gone: nobody sees it
		return
	}
	text := fmt.Sprintf("%s: %d", b.what, done)
	if b.total > 0 {
		text += fmt.Sprintf(" of %d", b.total)
	}
	fmt.Fprintf(b.w, "%s, %v\n", text, time.Since(b.began).Round(time.Second))
}

// Write writes whole lines above the bar.
func (b *Bar) Write(lines []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	n, err := b.w.Write(lines)
	if b.bar != nil && b.isShown {
		b.draw()
	}
	return n, err
}

func (b *Bar) clear() {
	if b.bar != nil && b.isShown {
		_ = b.bar.Clear()
	}
}

// Close ends it: the bar disappears, and lines end with one that says how far the work has come.
func (b *Bar) Close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar == nil && b.isShown && b.shown != int(b.done.Load()) {
		b.draw()
	}
	b.clear()
	b.isShown = false
}
