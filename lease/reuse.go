package lease

import (
	"fmt"
	"slices"
	"strings"
)

// Reuse says who may have a worker ID after its holder has gone.
type Reuse uint8

const (
	// ReuseAny lets any process have it, from its bound on: the time up to which IDs may
	// have been issued with it.
	ReuseAny Reuse = iota
	// ReuseKeep keeps it for its first owner. An owner gets only one: if its process
	// crashed, the next process of the same owner waits until the worker ID is free, for up
	// to a window.
	ReuseKeep
	// ReuseOnce never gives it out again: every acquisition takes a worker ID that was
	// never used, as in Baidu's uid-generator. The range will run out.
	ReuseOnce

	// The record of a worker ID has its last holder's Reuse. The next holder keeps to it or
	// to its own Options.Reuse, whichever is stricter.
)

var reuses = [...]string{ReuseAny: "any", ReuseKeep: "keep", ReuseOnce: "once"}

// String returns "any", "keep" or "once".
func (r Reuse) String() string {
	if int(r) < len(reuses) {
		return reuses[r]
	}
	return fmt.Sprintf("Reuse(%d)", uint8(r))
}

// MarshalText returns what String returns.
func (r Reuse) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText returned.
func (r *Reuse) UnmarshalText(text []byte) error {
	i := slices.Index(reuses[:], string(text))
	if i < 0 {
		return fmt.Errorf("lease: %q is not a Reuse: want one of %s", text, strings.Join(reuses[:], ", "))
	}
	*r = Reuse(i)
	return nil
}
