package lease

import "github.com/seed-5394e6b1/snowflake/lease/internal/protocol"

// Reuse decides who has a worker ID next. Its text is "any", "keep" or "once".
type Reuse = protocol.Reuse

const (
	// ReuseAny lets any process have it, from its bound on.
	ReuseAny Reuse = protocol.ReuseAny
	// ReuseKeep keeps it for its first owner, who gets only one: after a crash, the owner's next
	// process waits for up to a window until the worker ID is free.
	ReuseKeep Reuse = protocol.ReuseKeep
	// ReuseOnce gives it to nobody again, as in Baidu's uid-generator. The range will run out.
	ReuseOnce Reuse = protocol.ReuseOnce

	// The record of a worker ID has its last holder's Reuse. The next holder keeps to it or
	// to its own Options.Reuse, whichever is stricter.
)
