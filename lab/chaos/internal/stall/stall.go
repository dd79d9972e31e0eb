// Package stall measures how long the machine itself stalled. A criterion of time says little about
// a system while no process gets the CPU or the disk.
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

// Start begins to measure. It measures the disk with a file in the folder dir.
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

// wake measures how late it wakes from a sleep.
func (m *Meter) wake() {
	before := time.Now()
	for m.sleep(tick) {
		m.processor = max(m.processor, time.Since(before)-tick)
		before = time.Now()
	}
}

// sync measures how long it takes to write a page to disk.
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

// Stop ends the measurement. It returns the longest time that the program got no CPU, and the
// longest time that a page took to reach the disk.
func (m *Meter) Stop() (processor, disk time.Duration, err error) {
	close(m.stop)
	m.done.Wait()
	return m.processor, m.disk, m.err
}
