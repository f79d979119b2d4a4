package lease

import "github.com/seed-5394e6b1/snowflake/lease/internal/protocol"

// Reuse says who may have a worker ID after its holder has gone. Its text is "any", "keep" or
// "once".
type Reuse = protocol.Reuse

const (
	// ReuseAny lets any process have it, from its bound on: the time up to which IDs may
	// have been issued with it.
	ReuseAny Reuse = protocol.ReuseAny
	// ReuseKeep keeps it for its first owner. An owner gets only one: if its process
	// crashed, the next process of the same owner waits until the worker ID is free, for up
	// to a window.
	ReuseKeep Reuse = protocol.ReuseKeep
	// ReuseOnce never gives it out again: every acquisition takes a worker ID that was
	// never used, as in Baidu's uid-generator. The range will run out.
	ReuseOnce Reuse = protocol.ReuseOnce

	// The record of a worker ID has its last holder's Reuse. The next holder keeps to it or
	// to its own Options.Reuse, whichever is stricter.
)
