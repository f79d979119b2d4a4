package lease

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-5394e6b1/snowflake"
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

// OnLoss says what a lease does after it lost its worker ID: another process took it, or
// its record was removed.
type OnLoss uint8

const (
	// Replace takes another worker ID in the background, for as long as that takes. The
	// generator goes on with it, and its IDs stay in order.
	Replace OnLoss = iota
	// Stop ends the lease: Done closes, and Err matches ErrLost.
	Stop
)

// Options are the settings of Acquire. The zero value consists entirely of defaults.
type Options struct {
	// Layout is the layout of the IDs. NewLeased takes it from the lease. Zero:
	// snowflake.DefaultLayout().
	Layout snowflake.Layout

	// Owner is the name under which the process asks for a worker ID. People read it in
	// errors and in Whois, and an owner gets a worker ID that it had before, if one is
	// free. (After a crash, its worker ID is not free for up to a window; see ReuseKeep.)
	// Choose a name that stays the same across restarts and differs for each process, such
	// as a pod's name. Empty: the host's name.
	Owner string

	// Window is how far ahead of the clock the lease may issue IDs. The lease saves this time
	// in the store before it is used, and saves a later one when a third of the window has
	// passed. 0: the window that the store chooses if it is a [Windower], else 3 s; or 3 ticks
	// of the layout if that is more. At least 1 ms, and at least a tick.
	//
	// If the store goes away, IDs are issued for at least two thirds of a window. To bridge
	// an outage, such as a failover of the store, choose three times its length: with a
	// window of 30 s, no caller notices when Redis hangs for 8 s.
	//
	// A long window costs time after a crash: nobody can use the dead process's worker ID
	// until the window has passed. So the range needs as many spare worker IDs as processes
	// may crash in one window, and an owner that keeps its worker ID (ReuseKeep) waits for
	// it. A short window costs load: each holder saves three times in a window. 3 s suits a
	// file, which is seldom away; 30 s suits a fleet.
	Window time.Duration

	// First and Count are the range of worker IDs: Count worker IDs, beginning with First.
	// Count 0: up to the layout's last worker ID.
	First, Count int

	// Reuse says who may have the worker ID after this lease.
	Reuse Reuse

	// OnLoss says what the lease does if it loses its worker ID. With ReuseKeep, Replace
	// waits for the owner's own worker ID, and takes another one only if the store no
	// longer keeps it for this owner.
	OnLoss OnLoss

	// LocalCopy is a directory on this host for a copy of the lease. With it the owner can
	// start, and go on, while the store is away; only its very first acquisition needs the
	// store. While the store is away, such a start takes up to a window, because it waits
	// for the store's answer, and after a crash up to another window, until the bound has
	// passed. Empty: no copy.
	//
	// It works only with Reuse: ReuseKeep, because while the store is away nobody can ask
	// whether another process got the worker ID. For the same reason the directory's
	// identity becomes a part of the owner's name: if the directory is lost, or the owner
	// moves to another host, it gets another worker ID.
	//
	// The directory must stay as long as the lease lasts. If the copy is gone, the worker
	// ID is lost (see OnLoss). If the first acquisition fails half-way, such as on a full
	// disk, the next one takes the same worker ID. When the store is back it gets
	// everything that it missed, at the latest when the owner acquires a lease again; see
	// [Whois].
	//
	// HAZARD: IDs may repeat if the directory is copied or restored from a backup, because
	// the owner then exists twice; or if the worker ID's record is removed from the store,
	// because the store then gives the worker ID to another owner.
	LocalCopy string

	// MaxLeap is how far the clock may leap forward, compared with the store's clock or, if
	// the store shares the host's clock, with the monotonic time that has passed. After a
	// larger leap, IDs stop at the end of the window, because a time that is saved in the
	// store cannot be taken back. If the store shares the host's clock, a larger leap is
	// accepted after it has lasted for MaxLeap, on a clock that runs steadily. 0: 1 minute.
	MaxLeap time.Duration

	// History is for how long a store that is a [Historian] keeps the earlier holders of a
	// worker ID, for [Whois]. It is counted in ID time, back from the clock. Older holders
	// are dropped when a worker ID or clock sequence changes hands. 0: 90 days.
	History time.Duration

	// Clock is the clock of the lease and of its generator: NewLeased takes it from the
	// lease. nil: snowflake.SystemClock().
	Clock snowflake.Clock

	// Logger gets what an operator should know.
	//
	// It gets a warning if the worker ID was lost, if renewals have failed for half a
	// window, if the window has ended so that no IDs are issued, if the store is away and
	// the LocalCopy is used, if the clock leapt or stepped back, and if the layout will run
	// out within a year. It gets information when a worker ID was acquired, replaced or
	// released, and when one of these troubles is over, with its duration. A trouble that
	// lasts is logged once. Each warning says in "next" what will happen by itself. nil:
	// slog.Default(), as it is when Acquire is called.
	Logger *slog.Logger
}

// defaultWindow returns the window of Options whose Window is 0, whatever their layout is.
func defaultWindow(s Store) time.Duration {
	if w, ok := s.(Windower); ok && w.DefaultWindow() > 0 {
		return w.DefaultWindow()
	}
	return 3 * time.Second
}

func (o *Options) withDefaults(window time.Duration) (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Layout == (snowflake.Layout{}) {
		d.Layout = snowflake.DefaultLayout()
	}
	if err := d.Layout.Validate(); err != nil {
		return d, err
	}
	if d.Owner == "" {
		d.Owner = hostname()
	}
	if d.Window == 0 {
		d.Window = max(window, 3*min(d.Layout.Unit, time.Duration(1<<60)))
	}
	if d.MaxLeap == 0 {
		d.MaxLeap = time.Minute
	}
	if d.Clock == nil {
		d.Clock = snowflake.SystemClock()
	}
	if d.History == 0 {
		d.History = 90 * 24 * time.Hour
	}
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	all := 1 << d.Layout.WorkerBits
	if d.Count == 0 {
		d.Count = all - d.First
	}
	switch {
	case d.First < 0 || d.First >= all:
		return d, fmt.Errorf("%w: First %d is not within 0 to %d", ErrInvalidOptions, d.First, all-1)
	case d.Count <= 0 || d.Count > all-d.First:
		return d, fmt.Errorf("%w: %d worker IDs from %d on are not within 0 to %d", ErrInvalidOptions, d.Count, d.First, all-1)
	case d.History < 0:
		return d, fmt.Errorf("%w: History %v is negative", ErrInvalidOptions, d.History)
	case d.Window < max(time.Millisecond, d.Layout.Unit):
		return d, fmt.Errorf("%w: Window %v is under %v", ErrInvalidOptions, d.Window, max(time.Millisecond, d.Layout.Unit))
	case d.MaxLeap < 0:
		return d, fmt.Errorf("%w: MaxLeap %v is negative", ErrInvalidOptions, d.MaxLeap)
	case !utf8.ValidString(d.Owner) || strings.ContainsRune(d.Owner, 0):
		return d, fmt.Errorf("%w: Owner %q is not UTF-8 without NUL", ErrInvalidOptions, d.Owner)
	case d.LocalCopy != "" && d.Reuse != ReuseKeep:
		return d, fmt.Errorf("%w: LocalCopy takes Reuse: ReuseKeep, or the copy's worker ID may be another's by now", ErrInvalidOptions)
	case d.Reuse > ReuseOnce:
		return d, fmt.Errorf("%w: Reuse %d is unknown", ErrInvalidOptions, d.Reuse)
	case d.OnLoss > Stop:
		return d, fmt.Errorf("%w: OnLoss %d is unknown", ErrInvalidOptions, d.OnLoss)
	}
	return d, nil
}

func (o *Options) last() int { return o.First + o.Count - 1 }

// begin returns where a window begins if nothing was stamped at or after from and the clock
// reads now: at from or, if that is later, with the tick of a window ago. The window begins
// in the past because the generator's clock may read a little earlier.
func (o *Options) begin(from, now time.Time) time.Time {
	now = now.Add(-o.Window)
	if id, err := o.Layout.Encode(snowflake.Parts{Time: now}); err == nil {
		now = o.Layout.Decode(id).Time
	}
	return later(from, now).UTC()
}

// now reads the clock without its monotonic part, because comparisons would use it.
func (o *Options) now() time.Time { return o.Clock.Now().Round(0) }

// trip is how long a renewal waits for the store. It is a little shorter than a call waits
// for a renewal, so that the call gets the reason why the renewal failed.
func (o *Options) trip() time.Duration { return o.Window/3 - o.Window/48 }

// patience is how long Acquire waits for an answer from the store.
func (o *Options) patience() time.Duration { return max(o.Window, time.Second) }

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
