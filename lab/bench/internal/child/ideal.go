package child

import (
	"context"
	"sync"
	"time"
)

// ideal runs the handler Jobs times on Concurrency goroutines, without a queue. It shows what
// timers and scheduling alone allow on this machine.
func ideal(_ context.Context, s *self) (Figures, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	from := time.Now()
	numbers := make(chan int, s.Concurrency)
	var group sync.WaitGroup
	for range s.Concurrency {
		group.Go(func() {
			for n := range numbers {
				time.Sleep(s.Handler)
				s.count(n)
			}
		})
	}
	for n := range s.Jobs {
		numbers <- n
	}
	close(numbers)
	group.Wait()
	return Figures{"rate": float64(s.Jobs) / time.Since(from).Seconds()}, nil
}
