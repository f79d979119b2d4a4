package lease

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/disk"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/tenure"
)

// OnLoss is a lease's reaction to the loss of its worker ID, because another process took it or its
// record was removed.
type OnLoss uint8

const (
	// Replace takes another worker ID in the background. The generator continues with it, and its IDs
	// stay in order. With ReuseKeep, Replace waits for the owner's own as long as the store keeps it.
	Replace OnLoss = iota
	// Stop ends the lease: Done closes, and Err matches ErrLost.
	Stop
)

// Options are the settings of Acquire. Nil, and zero values, mean defaults.
type Options struct {
	// Layout is the layout of the IDs. The default is snowflake.DefaultLayout(). Like Clock, it is
	// the generator's, too: see snowflake.NewLeased.
	Layout snowflake.Layout

	// Owner names the process in errors and in Whois. An owner gets a worker ID that it had before, if
	// one is free. Choose a name that differs for each process and stays the same across restarts,
	// such as a pod's name. If two live processes have the same Owner, each logs it once (the older
	// one within 18 windows), except with ReuseOnce. The default is the host's name, which processes
	// may share without a log line.
	Owner string

	// Window is the length of a window. Every third of it, the lease saves a bound that lies a window
	// ahead of the clock. The default is that of the store ([driver.Windower]) or 3 s, and at least 3
	// ticks of the layout. The least is 1 ms and a tick, the most [MaxWindow]. A window must be
	// several times as long as a save takes, or renewals time out; the store's default is right.
	//
	// If the store goes away, IDs are issued for at least two thirds of a window. To bridge an outage,
	// such as a failover of the store, choose one and a half times its length. A short window costs
	// load: 3 s suits a file, 30 s a fleet. A long one costs time after a crash, because the dead
	// process's worker ID stays unused for a window: the range needs as many spare worker IDs as
	// processes may crash in one window, and with ReuseKeep the owner waits.
	Window time.Duration

	// FloorEvery is the interval of renewals while somebody reads the [Watermark], which then lags by
	// as much, even while processes start or are replaced. Choose the interval of the reader, such as
	// 100 ms. The first readings, and readings after a [Lease.Hold] of more than a window, may lag by
	// a third of a window more. The default, and the most, is a third of Window; the least is 1 ms and
	// a tick.
	FloorEvery time.Duration

	// First and Count are the range: Count worker IDs from First on or, if it is 0, all up to the
	// last.
	First, Count int

	Reuse Reuse // the use of the worker ID after this lease

	// NewStore opens a store that has never been used, as [Init] does, at each start, for tests and a
	// laptop. It has Init's HAZARD. If the store has the record of a worker ID, or a trace of one,
	// Acquire waits nevertheless, and logs why.
	NewStore bool

	OnLoss OnLoss // the reaction to the loss of the worker ID

	// LocalCopy is a directory on this host for a copy of the lease, or empty. With a copy the owner
	// can start and continue while the store is away; only its very first acquisition needs the store.
	// A start then takes up to a window, because it waits for the store's answer, and after a crash up
	// to another, until the bound has passed.
	//
	// It needs Reuse: ReuseKeep, because while the store is away nobody can ask whether another
	// process got the worker ID. So the directory's identity is a part of the owner's name: if the
	// directory is lost, or the owner moves to another host, the owner gets another worker ID, and the
	// lost one keeps the [Watermark] back until somebody calls [Retire]. If the copy is removed during
	// the lease, the worker ID is lost (see OnLoss).
	//
	// HAZARD: IDs may repeat if the directory is copied or restored from a backup, because the owner
	// then exists twice; or if the store loses the worker ID's record while the owner cannot reach it,
	// and gives the worker ID to another owner.
	LocalCopy string

	// MaxLeap bounds a leap of the clock forward. After a larger one, IDs stop at the end of the
	// window, because a bound cannot go back: see the package doc. The default is 1 minute.
	MaxLeap time.Duration

	// History is the time, in ID time, for which the store keeps the earlier holders of a worker ID,
	// for [Whois]. Older ones are dropped when a worker ID or clock sequence changes hands. The
	// default is 90 days.
	History time.Duration

	// VMClock is the path of a device that reports clones of the machine, such as another start of a
	// snapshot. After a clone, nothing more of the window is stamped, and the lease takes another
	// worker ID; with ReuseKeep only one copy gets one, because all have the same owner. With
	// LocalCopy or the store of File the lease ends, and an Acquire fails, because the directory was
	// cloned, too. An ID that was returned before the snapshot exists in each copy. The default is
	// /dev/vmclock0 if it can be used: see Guarded in [Stats]. If another path cannot be used, Acquire
	// fails. Linux only.
	VMClock string

	// Clock is the clock of the lease and the generator. The default is snowflake.SystemClock().
	Clock snowflake.Clock

	// MaxClockError bounds the error of the clock when Acquire returns. While the kernel reports a
	// larger error, or an unsynchronized clock, Acquire waits; if its time is up, the error matches
	// [ErrClockUnsynchronized]. By default Acquire does not ask the kernel, because in containers and
	// test machines it often calls a right clock unsynchronized. Linux only, without Clock.
	MaxClockError time.Duration

	// Logger gets an error if no IDs are issued because the window has ended, and if IDs may have
	// repeated; a warning if the worker ID was lost, if the store lost entries, if renewals have
	// failed for half a window, if the store is away and the LocalCopy is used, if the clock leapt or
	// stepped back, if another live process has the same Owner (not the default one), and if the
	// layout will run out within a year; information when a worker ID was acquired, replaced or
	// released, and when a problem is over. A problem that lasts is logged once, and again if its
	// cause changes. "next" says what will happen by itself. The default is slog.Default() at the
	// time of Acquire.
	Logger *slog.Logger

	named        bool      // Owner is not the default
	foreignClock bool      // Clock is not the kernel's
	disk         disk.Func // of LocalCopy; nil: machine.Disk
}

// defaultWindow returns the window of Options whose Window is 0, whatever their layout is.
func defaultWindow(s Store) time.Duration {
	if w, ok := s.(driver.Windower); ok && w.DefaultWindow() > 0 {
		return w.DefaultWindow()
	}
	return 3 * time.Second
}

func (o *Options) withDefaults(window time.Duration) (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	d.Layout = cmp.Or(d.Layout, snowflake.DefaultLayout())
	if err := d.Layout.Validate(); err != nil {
		return d, err
	}
	all := 1 << d.Layout.WorkerBits
	d.named, d.Owner = d.Owner != "", cmp.Or(d.Owner, hostname())
	d.Window = cmp.Or(d.Window, max(window, 3*min(d.Layout.Unit, time.Duration(1<<60))))
	d.MaxLeap = cmp.Or(d.MaxLeap, time.Minute)
	d.History = cmp.Or(d.History, 90*24*time.Hour)
	d.Logger = cmp.Or(d.Logger, slog.Default())
	d.Count = cmp.Or(d.Count, all-d.First)
	if d.foreignClock = d.Clock != nil; !d.foreignClock {
		d.Clock = snowflake.SystemClock()
	}
	least, most := max(time.Millisecond, d.Layout.Unit), protocol.MaxWindow(d.Layout.Unit)
	for _, refused := range []struct {
		is  bool
		why string
	}{
		{d.First < 0 || d.First >= all, fmt.Sprintf("First %d is not within 0 to %d", d.First, all-1)},
		{d.Count <= 0 || d.Count > all-d.First, fmt.Sprintf("%d worker IDs from %d on are not within 0 to %d", d.Count, d.First, all-1)},
		{d.History < 0, fmt.Sprintf("History %v is negative", d.History)},
		{d.Window > most, fmt.Sprintf("Window %v is over %v", d.Window, most)},
		{d.Window < least, fmt.Sprintf("Window %v is under %v", d.Window, least)},
		{d.FloorEvery != 0 && d.FloorEvery < least, fmt.Sprintf("FloorEvery %v is under %v", d.FloorEvery, least)},
		{d.FloorEvery > d.Window/3, fmt.Sprintf("FloorEvery %v is over %v, a third of Window", d.FloorEvery, d.Window/3)},
		{d.MaxLeap < 0, fmt.Sprintf("MaxLeap %v is negative", d.MaxLeap)},
		{d.MaxClockError < 0, fmt.Sprintf("MaxClockError %v is negative", d.MaxClockError)},
		{d.MaxClockError > 0 && d.foreignClock, fmt.Sprintf("MaxClockError %v needs Clock: nil", d.MaxClockError)},
		{!utf8.ValidString(d.Owner) || strings.ContainsRune(d.Owner, 0), fmt.Sprintf("Owner %q is not UTF-8, or has a NUL", d.Owner)},
		{d.LocalCopy != "" && d.Reuse != ReuseKeep, "LocalCopy needs Reuse: ReuseKeep, or another owner may have its worker ID by now"},
		{d.Reuse > ReuseOnce, fmt.Sprintf("Reuse %d is unknown", d.Reuse)},
		{d.OnLoss > Stop, fmt.Sprintf("OnLoss %d is unknown", d.OnLoss)},
	} {
		if refused.is {
			return d, fmt.Errorf("%w: %s", ErrInvalidOptions, refused.why)
		}
	}
	return d, nil
}

func (o *Options) last() int { return o.First + o.Count - 1 }

func (o *Options) rules() tenure.Rules {
	return tenure.Rules{Layout: o.Layout, WindowLength: o.Window, MaxLeap: o.MaxLeap, History: o.History, Reuse: o.Reuse}
}

// now reads the clock without its monotonic part, because comparisons would use it.
func (o *Options) now() time.Time { return o.Clock.Now().Round(0) }

// trip bounds a renewal's wait for the store. It is a little shorter than a call's wait for a
// renewal, so that the call gets the reason why the renewal failed.
func (o *Options) trip() time.Duration { return o.Window/3 - o.Window/48 }

// patience bounds Acquire's wait for an answer from the store.
func (o *Options) patience() time.Duration { return max(o.Window, time.Second) }

func hostname() string {
	name, _ := os.Hostname()
	return cmp.Or(name, "unknown")
}

// clockSync asks the kernel, if the lease reads the kernel's clock.
func (o *Options) clockSync() ClockSync {
	if o.foreignClock {
		return ClockSync{}
	}
	return ClockSync(machine.KernelClock())
}

// checkSync refuses a clock that may be off by more than Options.MaxClockError.
func (o *Options) checkSync() error {
	c := o.clockSync()
	if o.MaxClockError == 0 || c.Synchronized && c.MaxError <= o.MaxClockError {
		return nil
	}
	err := fmt.Errorf("%w: it is %v, but MaxClockError is %v", ErrClockUnsynchronized, c, o.MaxClockError)
	if !c.Known {
		err = fmt.Errorf("%w: %w", err, errors.ErrUnsupported) // this will not change
	}
	return err
}
