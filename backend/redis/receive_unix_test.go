//go:build unix

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestReceiveFailover: a job counts as received when a replica has it, also a job that a call
// leaves out because the master has it already. So what is sent again after a failover comes once,
// and nothing is lost that was received.
func TestReceiveFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster of its own and waits for a failover")
	}
	s := startCluster(t)
	options := redis.Options{Namespace: redistest.Namespace(), Partitions: 1, Durable: 1, DurableTimeout: 100 * time.Millisecond}
	connect := func() *redis.Backend {
		client, err := s.Client()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		b, err := redis.New(t.Context(), client, options)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	master, resume := holdReplica(t, s, options.Namespace)
	for range 2 { // each on a connection of its own
		if _, err := connect().Receive(t.Context(), newTransfers(0, 50)...); !errors.Is(err, queue.ErrUnknown) {
			t.Errorf("Receive without a replica: got error %v, want ErrUnknown", err)
		}
	}
	resume()
	options.DurableTimeout = 30 * time.Second
	b := connect()
	receive(t, b, 0, newTransfers(0, 50)...)
	receive(t, b, 50, newTransfers(50, 50)...)
	if err := s.Kill(master); err != nil {
		t.Fatal(err)
	}
	b.SetDurable(0) // the new master has no replica
	receiveOnce(t, b, newTransfers(0, 150)...)
	wantEach(t, b, 150)
}

// receiveOnce sends transfers until they are received, as a forwarder does.
func receiveOnce(t *testing.T, b *redis.Backend, transfers ...driver.Transfer) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := b.Receive(ctx, transfers...)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("nothing was received for a minute: %v", err)
		}
	}
}

// holdReplica stops the replica of a namespace's only partition. It returns the address of the
// master, and what lets the replica go on.
func holdReplica(t *testing.T, s *redistest.Server, namespace string) (master string, resume func()) {
	t.Helper()
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	slot, err := client.Do(t.Context(), client.B().ClusterKeyslot().Key("{"+namespace+":0}:meta").Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	if master, err = redistest.MasterOf(t.Context(), client, int(slot)); err != nil {
		t.Fatal(err)
	}
	port := stat(t, client.Nodes()[master], "replication", "slave0:", "port=")
	replica, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{fmt.Sprint("127.0.0.1:", port)}, DisableCache: true, ForceSingleClient: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer replica.Close()
	pid := int(stat(t, replica, "server", "process_id:"))
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(resume)
	return master, resume
}
