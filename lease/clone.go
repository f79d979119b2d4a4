package lease

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/vmclock"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// The hypervisor gives each copy of a machine another generation. If the generation is not what it
// was before the store was asked for the worker ID, another copy may hold the same worker ID with
// the same token. The lease then stamps nothing more of its window, never gives the worker ID back,
// and takes a worker ID as a new holder.

// cloning is what tells a lease of copies of its machine.
type cloning struct {
	vm      *atomic.Uint64 // the machine's generation; nil if the machine does not report clones
	begun   uint64         // the machine's generation when Acquire was called
	counted uint64         // the machine's generation when Stats counted a clone last, or begun

	// whole says that a clone has the records, too: they are in a directory.
	whole bool
}

// errCloned says that another copy of this machine may hold the same worker ID.
var errCloned = fmt.Errorf("%w: the machine was cloned, and another copy may have the worker ID", ErrLost)

// openVMClock returns the machine's generation, or nil if the machine does not report clones. If
// there is a device that cannot be used, unused says why.
func (o *Options) openVMClock() (generation *atomic.Uint64, unused, err error) {
	generation, err = machine.OpenVMClock(o.VMClock)
	if err != nil && o.VMClock != "" {
		return nil, nil, fmt.Errorf("%w: VMClock: %w", ErrInvalidOptions, err)
	}
	return generation, err, nil
}

// generation returns the machine's generation, or 0 if the machine does not report clones.
func (c *cloning) generation() uint64 { return vmclock.Generation(c.vm) }

// countClone makes Stats count the clone of the machine, once.
func (l *Lease) countClone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.generation(); now != l.counted {
		l.counted = now
		l.stats.Clones++
	}
}

// torn reports whether err says that the machine was cloned, and with it the directory that has the
// records. Each copy could then take the worker ID of the other.
func (c *cloning) torn(err error) bool { return c.whole && errors.Is(err, errCloned) }

// newToken returns a token that no other holder has. Copies of a machine may draw the same random
// numbers, so born is a part of the token; and copies of one snapshot may have the same generation,
// so the time is, too.
func (c *cloning) newToken(born uint64, now time.Time) string {
	if c.vm == nil {
		return machine.RandomText()
	}
	return machine.RandomText() + "-" + strconv.FormatUint(born, 36) + "-" + strconv.FormatInt(now.UnixNano(), 36)
}
