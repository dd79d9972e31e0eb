package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/rueidis"
)

// Move moves a slot of a cluster, with its keys, to the next master. It returns when both masters
// know it. client is a client of the cluster. First it waits until all nodes agree on who has which
// slots: a target that does not know of the last move yet would take the slot with an epoch that is
// no newer than another master's, and then either may believe that the other has it, for ever.
func Move(ctx context.Context, client rueidis.Client, slot int) error {
	nodes := client.Nodes()
	if err := awaitAgreement(ctx, nodes); err != nil {
		return err
	}
	from, to, err := ends(ctx, nodes, slot)
	if err != nil {
		return fmt.Errorf("redistest: move slot %d: %w", slot, err)
	}
	if err := move(ctx, nodes[from.Addr], nodes[to.Addr], from, to, slot); err != nil {
		return fmt.Errorf("redistest: move slot %d: %w", slot, err)
	}
	return nil
}

// awaitAgreement waits until all nodes that answer know the same masters with the same slots.
func awaitAgreement(ctx context.Context, nodes map[string]rueidis.Client) error {
	return poll(ctx, "the nodes to agree", func() bool {
		layouts := make(map[string]bool)
		for _, c := range nodes {
			if text, err := do(ctx, c, "CLUSTER", "NODES"); err == nil {
				layouts[layout(parseNodes(text))] = true
			}
		}
		return len(layouts) == 1
	})
}

// MasterOf returns the address of the master that has a slot.
func MasterOf(ctx context.Context, client rueidis.Client, slot int) (addr string, err error) {
	from, _, err := ends(ctx, client.Nodes(), slot)
	return from.Addr, err
}

// ends returns the master that has a slot, by its own word, and the next one. What other nodes say
// may be out of date.
func ends(ctx context.Context, nodes map[string]rueidis.Client, slot int) (from, to Node, err error) {
	var errs error
	for addr, c := range nodes {
		text, err := do(ctx, c, "CLUSTER", "NODES")
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		masters := Masters(parseNodes(text))
		for i, m := range masters {
			if m.Addr == addr && m.hasSlot(slot) {
				return m, masters[(i+1)%len(masters)], nil
			}
		}
	}
	return from, to, errors.Join(errors.New("no master has it"), errs)
}

// move moves a slot's keys, some hundred at once.
func move(ctx context.Context, source, target rueidis.Client, from, to Node, number int) error {
	slot := strconv.Itoa(number)
	if _, err := do(ctx, target, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.ID); err != nil {
		return err
	}
	if _, err := do(ctx, source, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.ID); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(to.Addr)
	if err != nil {
		return err
	}
	for {
		keys, err := source.Do(ctx, source.B().ClusterGetkeysinslot().Slot(int64(number)).Count(100).Build()).AsStrSlice()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		if _, err := do(ctx, source, append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...); err != nil {
			return err
		}
	}
	for _, c := range []rueidis.Client{target, source} {
		if _, err := do(ctx, c, "CLUSTER", "SETSLOT", slot, "NODE", to.ID); err != nil {
			return err
		}
	}
	return nil
}
