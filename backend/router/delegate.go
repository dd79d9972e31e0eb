package router

import (
	"reflect"
	"slices"

	"github.com/errandhq/errand/queue"
)

// offer is a capability, and where [queue.As] finds it.
type offer struct {
	capability reflect.Type
	in         func(q *Queue) any // nil: nowhere
}

// offers are all capabilities that a backend may have.
var offers = []offer{
	ofAll[queue.Waiter](), ofAll[queue.ListenChecker](), ofAll[queue.Checker](), ofAll[queue.Inspector](), ofAll[queue.Backlogger](),
	ofAll[queue.Redriver](), ofAll[queue.Canceller](), ofAll[queue.Editor](), ofAll[queue.Deleter](),
	ofAll[queue.Pruner](), ofAll[queue.Reclaimer](), ofAll[queue.ResultKeeper](), ofAll[queue.Ruler](), ofAll[queue.Pooled](),
	ofAll[queue.DeathTeller](), ofAll[queue.RateTeller](),
	ofHome(func(a queue.Auditor, _ *Queue) any { return a }),
	ofHome(func(p queue.Pauser, _ *Queue) any { return p }),
	ofHome(func(b queue.TxBeginner, _ *Queue) any { return b }),
	ofHome(func(s queue.Statistician, _ *Queue) any { return s }),
	ofHome(func(f queue.Fleet, q *Queue) any { return fleet{f, q} }),
	ofHome(func(c queue.TxClaimer, q *Queue) any { return txClaimer{c, q} }),
	ofHome(schedulesOf[queue.Scheduler]),
	ofHome(schedulesOf[queue.ScheduleRunner]),
	ofHome(func(t queue.Tabled, q *Queue) any {
		if len(q.targets) > 1 {
			return nil
		}
		return t
	}),
	ofHome(func(s queue.Served, q *Queue) any {
		if len(q.targets) > 1 {
			return nil
		}
		return s
	}),
	{reflect.TypeFor[queue.Receiver](), func(*Queue) any { return nil }},
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
		can, ok := queue.As[T](q.home.Queue)
		if !ok {
			return nil
		}
		return as(can, q)
	}}
}

func schedulesOf[T any](_ T, q *Queue) any {
	s, ok := queue.As[queue.Scheduler](q.home.Queue)
	r, isRunner := queue.As[queue.ScheduleRunner](q.home.Queue)
	if !ok || !isRunner {
		return nil
	}
	return schedules{s, r, q}
}

// Delegate implements [queue.Delegator]. Of an interface with the methods of several capabilities
// the first one decides.
func (q *Queue) Delegate(capability reflect.Type) any {
	i := slices.IndexFunc(offers, func(o offer) bool { return capability.Implements(o.capability) })
	if i < 0 || capability.Kind() != reflect.Interface {
		return q
	}
	return offers[i].in(q)
}
