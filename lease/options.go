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

// Reuse says what becomes of a worker ID that its holder no longer needs.
type Reuse uint8

const (
	// ReuseAny lets anybody have it, from its bound on.
	ReuseAny Reuse = iota
	// ReuseKeep lets only the owner that had it first have it again, and gives
	// an owner no second one: after a crash it waits for its own.
	ReuseKeep
	// ReuseOnce throws it away: every acquisition takes an ID that was never
	// used, as Baidu's uid-generator does. The range will run out.
	ReuseOnce

	// A record says how its worker ID was taken, and who comes next keeps to
	// the stricter of that and its own Options.Reuse.
)

// OnLoss says what a lease does after another process took its worker ID, or its
// record was removed.
type OnLoss uint8

const (
	// Replace takes another worker ID in the background, for as long as that
	// takes. The generator goes on with it, and its IDs stay in order.
	Replace OnLoss = iota
	// Stop ends the lease: Done closes, and Err matches ErrLost.
	Stop
)

// Options are the settings of Acquire. The zero value, and nil, consist
// entirely of defaults.
type Options struct {
	// Layout is that of the IDs. Zero: snowflake.DefaultLayout(). NewLeased
	// takes it from the lease.
	Layout snowflake.Layout

	// Owner is who asks, for people and for stickiness: an owner gets a worker
	// ID that it had before in preference to others, if that is free. (After
	// a crash it is not known to be, for up to a window; see ReuseKeep.) Make
	// it stable across restarts and different for each process, such as a
	// pod's name. Empty: the host's name.
	Owner string

	// Window is how far ahead of the clock the bound is kept. 0: 3 s, or 3 ticks
	// of the layout if that is more. At least 1 ms, and at least a tick.
	//
	// How to choose it: IDs are issued while the store is away, for at least two
	// thirds of a window, because the bound is moved when a third has passed. So
	// take three times the longest outage that no call is to notice, such as a failover
	// of the store. With 30 s, Redis may hang for 8 s without an error to any
	// caller. The price of a long window is paid after a crash: for a window the
	// worker ID is nobody's. So the range needs as many worker IDs to spare as
	// processes may crash in a window, and an owner that keeps its worker ID
	// (ReuseKeep) waits for it. The load on the store is three saves a window for
	// each holder. 3 s suits a file, which is seldom away; 30 s suits a fleet.
	Window time.Duration

	// First and Count are the range of worker IDs: Count of them, beginning with
	// First. Count 0: up to the layout's last.
	First, Count int

	// Reuse says what becomes of a worker ID afterwards.
	Reuse Reuse

	// OnLoss says what the lease does if it loses its worker ID. With ReuseKeep,
	// Replace waits for the owner's own worker ID, and takes another one only if
	// the store no longer has that as its own.
	OnLoss OnLoss

	// LocalCopy is a directory of this host, as File takes one, that keeps a
	// copy of the lease: with it the owner can start, and go on, while the store
	// is away. Only the very first acquisition needs the store. If one fails half-way, as
	// when the disk is full, the next takes the same worker ID. The store is told of
	// everything when it is back, at the latest when the owner acquires a lease again; see
	// [Whois]. Without it a
	// start takes up to a window for its answers that do not come and, after a
	// crash, up to another one until the bound has passed. Empty: none.
	//
	// It takes Reuse: ReuseKeep, because the store cannot be asked whether another
	// got the worker ID meanwhile. For the same reason the directory's identity
	// becomes a part of the owner's name: if the directory is lost, or the
	// owner moves to another host, it gets another worker ID.
	//
	// The directory must be there for as long as the lease: when the copy is
	// gone, the worker ID is lost (see OnLoss).
	//
	// HAZARD: a directory that is copied, or restored from a backup, is an owner
	// twice, and a record that is removed from the store gives the worker ID to
	// another: both can issue IDs twice.
	LocalCopy string

	// MaxLeap is how much further ahead than expected a bound may lie, and so
	// how much of the future a clock that leapt can burn. If the store has no
	// clock of its own, it is also for how long a leap must have lasted, on a
	// clock that runs steadily, before it is accepted. 0: 1 minute.
	MaxLeap time.Duration

	// History is for how long a store that is a [Historian] keeps who held a
	// worker ID before, for [Whois]. It is counted in ID time, back from the clock,
	// and kept to when a worker ID or clock sequence changes hands. 0: 90 days.
	History time.Duration

	// Clock is the generator's: NewLeased takes it from the lease.
	// nil: snowflake.SystemClock().
	Clock snowflake.Clock

	// Logger is told of what an operator should know. A warning: the worker ID was
	// lost, renewals have failed for half a window, the window has ended so that no
	// IDs are issued, the store is away beside a LocalCopy, the clock leapt or
	// stepped back, the layout will run out within a year. Information: a worker ID
	// was acquired, replaced or released, and each of these troubles is over, after
	// how long. What lasts is told once. Each says what will happen by itself
	// ("next"). nil: slog.Default(), as it is when Acquire is called.
	Logger *slog.Logger
}

func (o *Options) withDefaults() (Options, error) {
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
		d.Window = 3 * max(time.Second, min(d.Layout.Unit, time.Duration(1<<60)))
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

// last returns the last worker ID of the range.
func (o *Options) last() int { return o.First + o.Count - 1 }

// begin returns where a window begins if nothing was stamped at or after from and
// the clock reads now: with the tick of a window ago, because the generator's clock may
// be a little behind ours, or at from.
func (o *Options) begin(from, now time.Time) time.Time {
	now = now.Add(-o.Window)
	if id, err := o.Layout.Encode(snowflake.Parts{Time: now}); err == nil {
		now = o.Layout.Decode(id).Time
	}
	return later(from, now).UTC()
}

// now reads the clock, without a monotonic part that comparisons would go by.
func (o *Options) now() time.Time { return o.Clock.Now().Round(0) }

// trip is how long a renewal waits for the store. A call waits for a renewal a little
// longer, so that it hears why the renewal failed.
func (o *Options) trip() time.Duration { return o.Window/3 - o.Window/48 }

// patience is how long Acquire waits for an answer of the store.
func (o *Options) patience() time.Duration { return max(o.Window, time.Second) }

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
