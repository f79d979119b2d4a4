// Package contract is what a generator and a lease of package lease tell each other besides
// what the exported interfaces of package snowflake say. Layout is the type of package snowflake,
// which imports this package.
package contract

import (
	"sync/atomic"
	"time"
)

// Terms are what a lease of package lease tells its generator. The lease embeds them. Generation
// and Born may be nil.
type Terms[Layout any] struct {
	// Generation returns a number that changes if the machine is cloned; nil if the machine does
	// not report clones.
	Generation func() *atomic.Uint64

	// Born returns what Generation was before the lease asked for the grant's worker ID. It
	// is called before Lease.Grant, if there is a Generation. If Generation has changed
	// since, the generator issues nothing under this grant, and calls Extend.
	Born func() uint64

	// Bind is called by NewLeased, last of all. If it returns an error, NewLeased
	// fails with that error. It is nil if the lease was not made by Acquire.
	Bind func(Binding[Layout]) error
}

func (t Terms[Layout]) terms() Terms[Layout] { return t }

// Of returns the terms that a lease embeds, and reports whether it embeds any.
func Of[Layout any](lease any) (t Terms[Layout], ok bool) {
	l, ok := lease.(interface{ terms() Terms[Layout] })
	if ok {
		t = l.terms()
	}
	return t, ok
}

// Binding is what NewLeased tells a lease about its generator.
type Binding[Layout any] struct {
	// Layout is the generator's.
	Layout Layout
	// Floor returns the first instant that the generator may still stamp under the grant: from now
	// on it stamps nothing before, whatever its clock reads. If it may go back (RewindTicks), Floor
	// returns the zero time.
	Floor func() time.Time
	// Look makes the generator look at the grant at once. The lease calls it after it took
	// back a part of what it had granted, because another holder may stamp the same time.
	Look func()
	// Ready returns the error that a call to the generator would return now, without a cause of the
	// lease. It issues no ID. If a call would only wait for its tick, or for the clock because the
	// policy agrees, Ready returns nil.
	Ready func() error
	// Stop makes the generator issue no further ID: calls return a
	// LeaseExpiredError with this cause. It returns the end of the last tick
	// that the generator stamped: no ID is at or past it, under any worker ID, except
	// under a clock sequence that the lease has changed since. If the generator stamped
	// no tick, it returns the layout's epoch.
	Stop func(cause error) time.Time
}
