package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// errReplicas is why a write is not known to be durable.
var errReplicas = errors.New("too few replicas have it in time")

// doDurably sends commands, each with a WAIT behind it, which answers when enough replicas have
// what was written. Both go over one connection, which must follow no redirection between them:
// WAIT counts for the writes of its own connection.
func (b *Backend) doDurably(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(commands))
	for i, command := range commands {
		results[i] = b.doAndWait(ctx, command)
	}
	return results
}

// answerTimeout is how much longer than DurableTimeout a server may take to answer. The client
// itself waits for ever for the answer to WAIT, also if the server hangs.
const answerTimeout = 3 * time.Second

// doAndWait returns the result of a command, or an error if it has succeeded and too few replicas
// have it.
func (b *Backend) doAndWait(ctx context.Context, command rueidis.Completed) (result rueidis.RedisResult) {
	ctx, cancel := context.WithTimeout(ctx, b.opts.DurableTimeout+answerTimeout)
	defer cancel()
	err := b.client.Dedicated(func(c rueidis.DedicatedClient) error {
		wait := c.B().Wait().Numreplicas(int64(b.opts.Durable)).Timeout(b.opts.DurableTimeout.Milliseconds()).Build()
		both := c.DoMulti(ctx, command, wait)
		if result = both[0]; result.Error() != nil {
			if isReplica(result.Error()) {
				c.Close() // the next one leads to the master
			}
			return nil
		}
		n, err := both[1].AsInt64()
		if err == nil && n < int64(b.opts.Durable) {
			err = fmt.Errorf("%w: %d of %d", errReplicas, n, b.opts.Durable)
		}
		if err != nil {
			return fmt.Errorf("wait: %w", errors.Join(err, errWritten))
		}
		return nil
	})
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	return result
}

// errWritten marks an error of a write that the master has made.
var errWritten = errors.New("the master has written it")
