package progress

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// TestLines: elsewhere than on a terminal there is a line every few seconds, and none for short
// work.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		short := New(&out, "short", 10)
		for range 10 {
			short.Add(1)
		}
		time.Sleep(time.Second)
		short.Close()
		if out.Len() > 0 {
			t.Errorf("short work prints %q", &out)
		}

		long := New(&out, "long", 100)
		for i := range 100 {
			long.Add(1)
			if i == 50 {
				fmt.Fprintln(long, "half")
			}
			time.Sleep(100 * time.Millisecond)
		}
		long.Close()
		if got, want := out.String(), "long: 21 of 100, 2s\nhalf\nlong: 71 of 100, 7s\nlong: 100 of 100, 10s\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}

		out.Reset()
		endless := New(&out, "endless", 0)
		time.Sleep(3 * time.Second)
		endless.Describe("on and on")
		endless.Set(7)
		endless.Close()
		if got, want := out.String(), "on and on: 0, 3s\non and on: 7, 3s\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestBar: on a terminal a bar appears, stays below the lines that are written, and disappears.
func TestBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := New(&out, "long "+strings.Repeat("name ", 20), 40)
		b.drawOn(&out, 80)
		for i := range 30 {
			b.Add(1)
			if i == 25 {
				fmt.Fprintln(b, "an event")
			}
			time.Sleep(100 * time.Millisecond)
		}
		b.Close()
		text := out.String()
		bar, event, found := strings.Cut(text, "an event\n")
		if !found || !strings.Contains(bar, "long") || !strings.Contains(bar, "/40") || !strings.HasSuffix(bar, "\r") {
			t.Errorf("before the event it draws %q", bar)
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r", "\n"), "\n") {
			if n := utf8.RuneCountInString(line); n >= 80 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		if !strings.Contains(event, "/40") || !strings.HasSuffix(event, "\r") {
			t.Errorf("after the event it draws %q", event)
		}
	})
}

// TestConcurrent: all methods may be called at once, and nil shows nothing.
func TestConcurrent(t *testing.T) {
	var out bytes.Buffer
	b := New(&out, "work", 8000)
	b.drawOn(&out, 80)
	b.next.Store(0)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				b.Add(1)
				if i%100 == 0 {
					b.Describe("work")
					fmt.Fprintln(b, "line")
				}
			}
		})
	}
	all.Wait()
	b.Close()
	if got := strings.Count(out.String(), "line\n"); got != 80 {
		t.Errorf("%d lines, want 80", got)
	}
	var nobody *Bar
	nobody.Add(1)
	nobody.Set(1)
	nobody.Describe("x")
	nobody.Close()
}

func BenchmarkAdd(b *testing.B) {
	bar := New(new(bytes.Buffer), "work", b.N)
	for b.Loop() {
		bar.Add(1)
	}
}
