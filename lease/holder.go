package lease

import (
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// none stands for no worker ID.
const none = protocol.None

const (
	StateHeld  State = protocol.StateHeld  // its holder renews it
	StateDead  State = protocol.StateDead  // its holder no longer renews it, and has not released it
	StateFree  State = protocol.StateFree  // released
	StateSpent State = protocol.StateSpent // not given out again: used once, or retired
	StateLost  State = protocol.StateLost  // its record was lost; unused until its holders' windows have ended
)

// State is the state of a worker ID.
type State = protocol.State

// Holder is the holder of a worker ID, or the last one.
type Holder struct {
	Worker   int       `json:"worker"`
	ClockSeq int       `json:"clockSeq"`
	State    State     `json:"state"`
	Owner    string    `json:"owner"` // Options.Owner
	Host     string    `json:"host"`  // where the holder runs
	PID      int       `json:"pid"`
	From     time.Time `json:"from"` // the holder's IDs have times in [From, To)
	To       time.Time `json:"to"`

	// Renewed is the time of the last renewal, by the clock of the engine or, for the store of
	// File, of its host. It is zero if the engine has no clock.
	Renewed time.Time `json:"renewed,omitzero"`

	Window time.Duration    `json:"windowNanos"` // Options.Window
	Reuse  Reuse            `json:"reuse"`
	Layout snowflake.Layout `json:"layout"`
}

func (h Holder) who() string { return protocol.Who(h.Owner, h.Host, h.PID) }

// String describes h on one line.
func (h Holder) String() string {
	by, to := h.who(), times.Text(h.To)
	switch {
	case h.State == StateLost:
		return fmt.Sprintf("the record of worker %d is lost", h.Worker)
	case h.State == StateFree && h.Reuse == ReuseKeep:
		return fmt.Sprintf("worker %d is kept for %s, from %s on", h.Worker, by, to)
	case h.State == StateFree:
		return fmt.Sprintf("worker %d is free from %s on, and was held by %s", h.Worker, to, by)
	case h.State == StateSpent:
		return fmt.Sprintf("worker %d is spent, and was held by %s until %s", h.Worker, by, to)
	case h.State == StateDead:
		return fmt.Sprintf("worker %d was held by %s until %s, who no longer renews it", h.Worker, by, to)
	}
	return fmt.Sprintf("worker %d is held by %s until %s", h.Worker, by, to)
}

// holderOf returns what users see of r.
func holderOf(r protocol.Record) Holder {
	return Holder{r.Worker, r.ClockSeq, r.State, r.Owner, r.Host, r.PID, r.From, r.Bound(), r.Renewed, r.WindowLength, r.Reuse, r.Layout}
}

// Holding is a span of ID time, [From, To), in which one holder alone could issue IDs with a worker
// ID and clock sequence. It may begin up to a window before the holder's process, whose clock may
// be set back, and end after it.
type Holding struct {
	Worker   int       `json:"worker"`
	ClockSeq int       `json:"clockSeq"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Token    string    `json:"token"` // unique to the acquisition
	Owner    string    `json:"owner"` // Options.Owner
	Host     string    `json:"host"`  // where the holder ran
	PID      int       `json:"pid"`
}
