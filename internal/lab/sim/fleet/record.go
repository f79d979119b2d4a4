//go:build go1.25

package fleet

import (
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// record is the entry of a worker ID: the fields of package lease's records that are checked.
type record struct {
	Worker    int           `json:"worker"`
	Saves     uint64        `json:"saves"`
	Token     string        `json:"token"`
	State     lease.State   `json:"state"`
	Reuse     lease.Reuse   `json:"reuse"`
	Owner     string        `json:"owner"`
	Bounds    []time.Time   `json:"bounds"`
	NotBefore time.Time     `json:"notBefore"`
	ClockSeq  int           `json:"clockSeq"`
	From      time.Time     `json:"from"`
	Store     string        `json:"store"`
	Marked    bool          `json:"marked"`
	Forgotten time.Time     `json:"forgotten"`
	Window    time.Duration `json:"window"`
	Least     time.Time     `json:"least"`

	renewed time.Time // the time of its save, by the store's clock
}

// bound returns the bound of the current clock sequence.
func (r record) bound() time.Time {
	if r.ClockSeq < len(r.Bounds) {
		return times.Later(r.Bounds[r.ClockSeq], r.NotBefore)
	}
	return r.NotBefore
}

func (r record) String() string {
	return fmt.Sprintf("worker %d is %s, of %s, until %s", r.Worker, r.State, r.Owner, r.bound().UTC().Format(timeFormat))
}
