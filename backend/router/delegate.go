package router

import (
	"reflect"
	"slices"

	"github.com/errandhq/errand/queue/driver"
)

// offer is a capability, and where [driver.As] finds it.
type offer struct {
	capability reflect.Type
	in         func(q *Queue) any // nil: nowhere
}

// offers are all capabilities that a backend may have.
var offers = []offer{
	ofAll[driver.Waiter](), ofAll[driver.Checker](), ofAll[driver.Inspector](), ofAll[driver.Editor](), ofAll[driver.Canceller](),
	ofAll[driver.Reclaimer](), ofAll[driver.DeathTeller](), ofAll[driver.ResultKeeper](), ofAll[driver.Ruler](), ofAll[driver.Pooled](),
	ofHome(func(a driver.Auditor, _ *Queue) any { return a }),
	ofHome(func(p driver.Pauser, q *Queue) any { return pauser{p, q} }),
	ofHome(func(b driver.TxBeginner, _ *Queue) any { return b }),
	ofHome(func(s driver.Statistician, _ *Queue) any { return s }),
	ofHome(func(f driver.Fleet, q *Queue) any { return fleet{f, q} }),
	ofHome(func(c driver.TxClaimer, q *Queue) any { return txClaimer{c, q} }),
	ofHome(func(s driver.Scheduler, q *Queue) any { return schedules{s, q} }),
	ofHome(func(t driver.Tabled, q *Queue) any {
		if len(q.targets) > 1 {
			return nil
		}
		return t
	}),
	ofHome(func(s driver.Served, q *Queue) any {
		if len(q.targets) > 1 {
			return nil
		}
		return s
	}),
	{reflect.TypeFor[driver.Receiver](), func(*Queue) any { return nil }},
}

// ofAll is a capability that the router has if one of its backends has it.
func ofAll[T any]() offer {
	return offer{reflect.TypeFor[T](), func(q *Queue) any {
		if len(having[T](q)) == 0 {
			return nil
		}
		return q
	}}
}

// ofHome is a capability that the router has if the home has it.
func ofHome[T any](as func(can T, q *Queue) any) offer {
	return offer{reflect.TypeFor[T](), func(q *Queue) any {
		can, ok := driver.As[T](q.home.Queue)
		if !ok {
			return nil
		}
		return as(can, q)
	}}
}

// Delegate implements [driver.Delegator]. Of an interface with the methods of several capabilities
// the first one decides.
func (q *Queue) Delegate(capability reflect.Type) any {
	i := slices.IndexFunc(offers, func(o offer) bool { return capability.Implements(o.capability) })
	if i < 0 || capability.Kind() != reflect.Interface {
		return q
	}
	return offers[i].in(q)
}
