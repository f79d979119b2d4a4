// Package contract is what a generator and a lease of package lease tell each other besides
// grants. Layout, Clock and Grant are the types of package snowflake, which imports this
// package.
package contract

import (
	"context"
	"sync/atomic"
	"time"
)

// Terms are the settings and functions that a lease gives its generator. Each field may be
// zero.
type Terms[Layout, Clock, Grant any] struct {
	// Layout is the generator's layout if Options.Layout is zero.
	Layout Layout

	// Clock is the generator's clock if Options.Clock is nil.
	Clock Clock

	// Generation changes if the machine is cloned. nil: nobody tells.
	Generation *atomic.Uint64

	// Born returns what Generation was before the lease asked for the grant's worker ID. It
	// is called before Lease.Grant, if there is a Generation. If Generation has changed
	// since, the generator issues nothing of this grant. It asks Extend.
	Born func() uint64

	// Bind is called by NewLeased, last of all. If it returns an error, NewLeased
	// fails with that error.
	Bind func(Binding[Layout]) error

	// Extend is called, without the generator's lock, when no time before g.To is
	// left to stamp. now is the clock's reading. Extend returns nil if Grant now
	// returns more: a later To, another worker ID or another clock sequence. The
	// generator then calls Grant again. If Grant will not return more soon, Extend
	// returns an error, which becomes the Cause of a LeaseExpiredError, unless
	// ctx is done.
	//
	// If now has reached g.To, Extend should ask for a renewal at once. If now is
	// before g.To, Options.BorrowAhead ran into the window's end, and Extend should
	// wait for the next regular renewal.
	Extend func(ctx context.Context, g Grant, now time.Time) error

	// CanBump reports whether a clock sequence other than the grant's may be
	// stamped from now on. now is a reading of the generator's clock. CanBump must
	// not block.
	CanBump func(now time.Time) bool

	// Bump changes the grant g to such a clock sequence. If g is no longer the
	// grant, it does nothing. It may block, and returns when the change is
	// recorded. Its error becomes a part of NextID's error. Without Bump,
	// ActionBump is not possible.
	Bump func(ctx context.Context, g Grant, now time.Time) error
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
	// Stop makes the generator issue no further ID: calls return a
	// LeaseExpiredError with this cause. It returns the end of the last tick
	// that the generator stamped: no ID is at or past it, under any worker ID, except
	// under a clock sequence that the lease has changed since. If the generator stamped
	// no tick, it returns the layout's epoch.
	Stop func(cause error) time.Time
}
