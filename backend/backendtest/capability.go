package backendtest

import (
	"strings"

	"github.com/errandhq/errand/queue/driver"
)

// capability is a set of what a backend or its Harness may have beyond the four operations of a
// Queue.
type capability uint64

// capabilities has a row for each bit of a capability, with the name that Run logs where a backend
// lacks it.
var capabilities []declaration

type declaration struct {
	name string
	isIn func(h Harness) bool
}

// newCapability declares a capability, and returns its bit.
func newCapability(name string, isIn func(h Harness) bool) capability {
	capabilities = append(capabilities, declaration{name, isIn})
	return 1 << (len(capabilities) - 1)
}

const anything = capability(0)

// Capabilities of the backend.
var (
	hasInspector   = newCapability("Inspector", can[driver.Inspector])
	hasChecker     = newCapability("Checker", can[driver.Checker])
	hasCanceller   = newCapability("Canceller", can[driver.Canceller])
	hasEditor      = newCapability("Editor", can[driver.Editor])
	hasAuditor     = newCapability("Auditor", can[driver.Auditor])
	hasPauser      = newCapability("Pauser", can[driver.Pauser])
	hasReclaimer   = newCapability("Reclaimer", can[driver.Reclaimer])
	hasReassigner  = newCapability("Reassigner", can[driver.Reassigner])
	hasDeathTeller = newCapability("DeathTeller", can[driver.DeathTeller])
	hasTxBeginner  = newCapability("TxBeginner", can[driver.TxBeginner])
	hasResults     = newCapability("ResultKeeper", can[driver.ResultKeeper])
	hasRuler       = newCapability("Ruler", can[driver.Ruler])
	hasFleet       = newCapability("Fleet", can[driver.Fleet])
	hasStats       = newCapability("Statistician", can[driver.Statistician])
	hasReceiver    = newCapability("Receiver", can[driver.Receiver])
	hasWakeUps     = newCapability("Waiter", func(h Harness) bool { return can[driver.Waiter](h) && !h.Polls })
	hasTxClaimer   = newCapability("TxClaimer", func(h Harness) bool { return can[driver.TxClaimer](h) && h.Begin != nil })
	hasSchedules   = newCapability("Scheduler", func(h Harness) bool { return can[driver.Scheduler](h) && h.Rewind != nil })
)

// What the Harness has.
var (
	hasTx     = newCapability("Begin", func(h Harness) bool { return h.Begin != nil })
	holds     = newCapability("Hold", func(h Harness) bool { return h.Hold != nil })
	canRewind = newCapability("Rewind", func(h Harness) bool { return h.Rewind != nil })
	isPolling = newCapability("Polls", func(h Harness) bool { return can[driver.Waiter](h) && h.Polls })
	isFull    = newCapability("a full run", func(h Harness) bool { return !h.Brief })
	isInOrder = newCapability("queues in one partition", func(h Harness) bool { return !h.Spread })
)

func can[T any](h Harness) bool {
	_, ok := driver.As[T](h.Queue)
	return ok
}

// capabilitiesOf returns what a harness has.
func capabilitiesOf(h Harness) (has capability) {
	for bit, d := range capabilities {
		if d.isIn(h) {
			has |= 1 << bit
		}
	}
	return has
}

func (c capability) String() string {
	var names []string
	for bit, d := range capabilities {
		if c&(1<<bit) != 0 {
			names = append(names, d.name)
		}
	}
	return strings.Join(names, ", ")
}
