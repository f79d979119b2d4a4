package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// State says whether a worker ID is in use.
type State string

// The states, which package lease documents. No record says StateDead.
const (
	StateHeld  State = "held"
	StateDead  State = "dead"
	StateFree  State = "free"
	StateSpent State = "spent"
	StateLost  State = "lost"
)

// Reuse says who may have a worker ID after its holder has gone.
type Reuse uint8

// The rules, which package lease documents.
const (
	ReuseAny Reuse = iota
	ReuseKeep
	ReuseOnce
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
