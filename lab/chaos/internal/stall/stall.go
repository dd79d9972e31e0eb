// Package stall measures for how long the machine itself stood still: what a scenario
// demands in seconds says little of a system while nobody gets the processor or the disk.
package stall

import (
	"errors"
	"os"
	"sync"
	"time"
)

const (
	tick  = 20 * time.Millisecond
	write = 250 * time.Millisecond
)

// Meter measures until it is stopped.
type Meter struct {
	stop      chan struct{}
	done      sync.WaitGroup
	processor time.Duration
	disk      time.Duration
	err       error
}

// Start begins to measure, the disk at a file in the folder dir.
func Start(dir string) (*Meter, error) {
	f, err := os.CreateTemp(dir, "stall-")
	if err != nil {
		return nil, err
	}
	m := &Meter{stop: make(chan struct{})}
	m.done.Go(m.wake)
	m.done.Go(func() { m.err = errors.Join(m.sync(f), f.Close(), os.Remove(f.Name())) })
	return m, nil
}

// wake notes by how much it is woken too late.
func (m *Meter) wake() {
	before := time.Now()
	for m.sleep(tick) {
		m.processor = max(m.processor, time.Since(before)-tick)
		before = time.Now()
	}
}

// sync notes how long it takes to write a page to the disk.
func (m *Meter) sync(f *os.File) error {
	page := make([]byte, 8<<10)
	for m.sleep(write) {
		before := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		m.disk = max(m.disk, time.Since(before))
	}
	return nil
}

func (m *Meter) sleep(d time.Duration) bool {
	select {
	case <-m.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// Stop ends the measurement and returns the longest time for which the program was not
// given a processor, and the longest that one page took to be on the disk.
func (m *Meter) Stop() (processor, disk time.Duration, err error) {
	close(m.stop)
	m.done.Wait()
	return m.processor, m.disk, m.err
}
