// Package contract connects a generator and a lease of package lease: their calls to each other,
// which users do not see. Layout and Lease are types of package snowflake, which imports this
// package.
package contract

import (
	"sync/atomic"
	"time"
)

// Terms are a lease's side of the contract. Generation and Born may be nil.
type Terms[Layout any] struct {
	// Methods has the methods of snowflake.Extender and snowflake.Bumper, if the lease itself does
	// not.
	Methods any

	// Generation returns a number that changes if the machine is cloned; nil if the machine does
	// not report clones.
	Generation func() *atomic.Uint64

	// Born returns the generation before the lease asked for the grant's worker ID. It is called
	// before Lease.Grant, if there is a Generation. If the generation has changed since, the
	// generator issues nothing under this grant, and calls Extend.
	Born func() uint64

	// Bind is the last thing that NewLeased calls. If it returns an error, NewLeased fails with that
	// error. It is nil if the lease was not made by Acquire.
	Bind func(Binding[Layout]) error
}

// Private holds the Terms of the lease that embeds it, and shows them only to Of.
type Private[Layout any] struct{ kept *Terms[Layout] }

// Keep returns a Private with the terms t.
func Keep[Layout any](t *Terms[Layout]) Private[Layout] { return Private[Layout]{t} }

func (p Private[Layout]) terms() *Terms[Layout] { return p.kept }

// Of returns the terms of a lease that embeds a Private, and reports whether it does.
func Of[Layout any](lease any) (t Terms[Layout], ok bool) {
	l, ok := lease.(interface{ terms() *Terms[Layout] })
	if ok && l.terms() != nil {
		t = *l.terms()
	}
	return t, ok
}

// Binding is the generator's side of the contract.
type Binding[Layout any] struct {
	Layout Layout // of the generator
	// Floor returns the first instant that the generator may still stamp under the grant: it stamps
	// no earlier one any more, whatever its clock reads. If it may go back (RewindTicks), Floor
	// returns the zero time.
	Floor func() time.Time
	// Look makes the generator look at the grant at once. The lease calls it after it took
	// back a part of what it had granted, because another holder may stamp the same time.
	Look func()
	// Ready returns the error that a call to the generator would return now, without a cause of the
	// lease. It issues no ID. If a call would only wait for its tick, or for the clock because the
	// policy agrees, Ready returns nil.
	Ready func() error
	// Stop makes the generator issue no further ID: calls return a LeaseExpiredError with this
	// cause. It returns the end of the last tick that the generator stamped: no ID is at or past it,
	// under any worker ID, except under a clock sequence that the lease has changed since. If the
	// generator stamped no tick, it returns the layout's epoch.
	Stop func(cause error) time.Time
}
