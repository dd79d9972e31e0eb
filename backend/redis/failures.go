package redis

import (
	"errors"
	"fmt"
)

// failures collects the errors of several calls. The partitions of one server tend to fail alike:
// equal texts become one error with its count. The zero value is ready for use.
type failures struct {
	errs  []error // of different texts
	times map[string]int
}

// add adds err, which may be nil.
func (f *failures) add(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	if f.times == nil {
		f.times = make(map[string]int)
	}
	if f.times[text]++; f.times[text] == 1 {
		f.errs = append(f.errs, err)
	}
}

// err returns the errors as one, or nil if there are none.
func (f *failures) err() error {
	all := make([]error, len(f.errs))
	for i, err := range f.errs {
		if all[i] = err; f.times[err.Error()] > 1 {
			all[i] = fmt.Errorf("%w (%d times)", err, f.times[err.Error()])
		}
	}
	return errors.Join(all...)
}
