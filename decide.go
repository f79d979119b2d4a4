package snowflake

// view is the generator's state for a call, with the lock held.
type view struct {
	place             // the source of its IDs; left is 0 if the layout's time has run out
	limit   int64     // the last tick that may be stamped now
	reached int64     // the tick that the clock must have reached
	over    bool      // the lease does not grant tick
	behind  bool      // the clock has gone back, or does not reach tick in time
	back    *Backward // for the policy, if behind
	agreed  Action    // the policy's last choice, if it covers this step back; otherwise ActionFail
}

// moveKind is a kind of move.
type moveKind uint8

const (
	returns  moveKind = iota // it returns IDs
	sleeps                   // it takes IDs, if it has none, waits for their tick, and looks again
	asks                     // it asks the policy about the clock
	extends                  // it asks the lease for more than it grants
	exhausts                 // it fails, because the layout's time has run out
)

// decide returns the next move.
func (v *view) decide() moveKind {
	switch {
	case v.kind == slot && v.tick <= v.limit:
		return returns
	case v.behind && v.agreed != ActionWait:
		return asks
	case v.kind == slot:
		return sleeps
	case v.left == 0:
		return exhausts
	case v.over:
		return extends
	case v.tick <= v.limit && v.reached <= v.limit:
		return returns
	}
	return sleeps
}
