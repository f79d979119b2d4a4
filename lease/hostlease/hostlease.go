// Package hostlease gives out worker IDs at two levels, for fleets of up to millions of processes. A host
// leases a block of worker IDs from the fleet's store. Its processes lease worker IDs of the
// block from a directory of the host, and ask nothing of the fleet's store.
//
// One process of each host keeps the block:
//
//	fleet := hostlease.Fleet{Layout: layout, HostBits: 17}
//	err := fleet.Keep(ctx, store, "/run/snowflake", &lease.Options{Window: lease.MaxWindow})
//
// All processes of the host use it:
//
//	l, err := fleet.Acquire(ctx, "/run/snowflake", nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// If the fleet's store is empty, the first Keep waits for three minutes ([lease.Options].NewStore), and Acquire
// waits for Keep.
//
// If the keeper ends, the processes issue IDs until its window ends. If it is started again before, it takes another
// block, and they go on with greater IDs.
//
// The directory should outlive the keeper: with systemd's RuntimeDirectory, set RuntimeDirectoryPreserve=yes. If the directory is
// removed and made again, the keeper takes another block. The processes issue IDs until the window of the block before ends, and
// then their leases end with an error that matches [lease.ErrLost]: start them again.
//
// [lease.Watermark] of the fleet's store stands still while keepers run, because their leases have no generators.
//
// # Why no ID repeats
//
// The high bits of a worker ID are the block b, the low bits are the number k in the block. The
// keeper's lease is a lease of b, and a process's lease is a lease of k in the directory. A process
// stamps b and k at the time t only if t is in both windows:
//
//  1. Windows of b of two keepers' leases have no instant in common (package lease).
//  2. Windows of k of two processes have no instant in common, if they have the same folder of numbers
//     (package lease).
//  3. A keeper publishes a lease with the name of one folder of numbers, which is random. If it finds that the
//     name which it published is gone, the directory was removed: then it takes another lease before it publishes
//     again. A process uses only leases that are published with the name of its own folder.
//  4. So if two processes have stamped b, k and t, their keepers' leases are the same, by 1. Then their folders are
//     the same, by 3, and they are the same process, by 2.
//
// The published window is saved in the fleet's store first, so a process that reads it late
// stamps less, and never more. No clock appears in this.
//
// # Hazards
//
// The hazards of package lease hold at both levels.
//
// HAZARD: if the directory is copied to another host, or shared with it, a keeper's window is
// published twice, and IDs may repeat until this window ends. Choose a directory in /run, which is gone after a
// restart.
//
// HAZARD: a snapshot of a machine with its memory has a copy of /run, too. If the hypervisor tells the keeper and the
// processes (Options.VMClock), no process of a copy uses the block that was published before the snapshot, and the keeper
// of each copy takes another one at once. Otherwise IDs may repeat until the window of this block ends.
//
// HAZARD: if a process starts while the directory is being removed, it may find the published block, and no trace
// of the process that has its number. IDs may repeat until the window of this block ends. So they may if only the
// folder numbers in the directory is removed.
package hostlease

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/contract"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Fleet says how a fleet divides its worker IDs. It is the same for all hosts and processes.
type Fleet struct {
	Layout   snowflake.Layout // of the IDs; without clock sequences
	HostBits uint8            // how many of the worker bits, the high ones, number the hosts' blocks: 1 to WorkerBits-1
}

// ErrNoBlock is matched by the errors of Acquire and of calls for IDs if the host has no block now: its
// keeper does not run, or cannot renew its lease.
var ErrNoBlock = errors.New("hostlease: the host has no block of worker IDs")

// parts returns the layouts of both levels' records. An ID has its block, or its number in the block, as the worker ID
// in them, so that lease.Whois finds it.
func (f Fleet) parts() (host, process snowflake.Layout, err error) {
	l := f.Layout
	switch err := l.Validate(); {
	case err != nil:
		return l, l, err
	case f.HostBits < 1 || f.HostBits >= l.WorkerBits:
		return l, l, fmt.Errorf("%w: HostBits %d is not within 1 to %d", lease.ErrInvalidOptions, f.HostBits, int(l.WorkerBits)-1)
	case l.ClockSeqBits > 0:
		return l, l, fmt.Errorf("%w: the layout has %d clock sequence bits, and hostlease takes none", lease.ErrInvalidOptions, l.ClockSeqBits)
	}
	host, process = l, l
	host.WorkerBits, host.SequenceBits = f.HostBits, l.SequenceBits+l.WorkerBits-f.HostBits
	process.DatacenterBits, process.WorkerBits = l.DatacenterBits+f.HostBits, l.WorkerBits-f.HostBits
	return host, process, nil
}

// block is what a keeper publishes: the block's number, and its window.
type block struct {
	Fleet      Fleet
	Block      int
	From, To   time.Time
	Numbers    string  // the folder with the leases of the numbers in the block
	Generation *uint64 // the machine's before the block was leased; nil if nobody tells it
}

// counts reports whether b was leased by this machine, and not by the machine that it is a copy of.
func (b *block) counts(generation *uint64) bool {
	return generation == nil || b.Generation == nil || *generation == *b.Generation
}

// Workers returns the store of a host's directory, for [lease.Whois] and [lease.Holders]: which process had which number
// in the host's block. The fleet's store knows which host had which block. If no keeper has published a block in the
// directory, the error matches ErrNoBlock.
func Workers(ctx context.Context, dir string) (lease.Store, error) {
	b, _, err := read(ctx, dir)
	if err == nil && b == nil {
		err = fmt.Errorf("%w: no keeper has published it in %s", ErrNoBlock, dir)
	}
	if err != nil {
		return nil, err
	}
	return numbers(dir, b.Numbers), nil
}

func numbers(dir, name string) lease.Store { return lease.File(filepath.Join(dir, "numbers", name)) }

// published returns the store of what is published. A store that was used does not make its directory again, so it
// is a new one each time.
func published(dir string) lease.Store { return lease.File(filepath.Join(dir, "host")) }

const blockKey = "block"

// read reads the block that is published now; nil if there is none.
func read(ctx context.Context, dir string) (*block, lease.Entry, error) {
	e, err := published(dir).Get(ctx, blockKey)
	if err != nil || e.Version == "" {
		return nil, e, err
	}
	b := new(block)
	if err := json.Unmarshal(e.Value, b); err != nil {
		return nil, e, fmt.Errorf("%w: %s: %w", lease.ErrBadRecord, blockKey, err)
	}
	return b, e, nil
}

// generation returns the machine's before a lease with terms t was acquired; nil if nobody tells it.
func generation(t contract.Terms[snowflake.Layout, snowflake.Clock, snowflake.Grant]) *uint64 {
	if t.Generation == nil {
		return nil
	}
	return new(t.Born())
}

// Keep leases a block from the fleet's store, and publishes it in dir until ctx is done. Then it releases
// the block, which others can have when its window has ended, and returns nil. opts are the options of
// lease.Acquire; Layout is the fleet's. Keep returns the errors of lease.Acquire; and with
// OnLoss: lease.Stop an error that matches lease.ErrLost. If it returns an error, end the program,
// because Acquire then waits in vain.
func (f Fleet) Keep(ctx context.Context, fleet lease.Store, dir string, opts *lease.Options) error {
	host, _, err := f.parts()
	if err != nil {
		return err
	}
	o := with(host, opts)
	err = f.keep(ctx, fleet, dir, o)
	for errors.Is(err, errRemoved) {
		cmp.Or(o.Logger, slog.Default()).Warn("hostlease: the directory was removed; Keep takes another block", "dir", dir)
		o.NewStore = false // it has entries now
		if err = f.keep(ctx, fleet, dir, o); ctx.Err() != nil {
			return nil
		}
	}
	return err
}

// errRemoved says that what a keeper published is gone. The directory was removed, and processes may still use the block.
var errRemoved = errors.New("hostlease: the directory was removed")

// keep is Keep with one lease. If the directory is removed, it returns errRemoved.
func (f Fleet) keep(ctx context.Context, fleet lease.Store, dir string, opts *lease.Options) error {
	l, err := lease.Acquire(ctx, fleet, opts)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = l.Release(ctx) // if it fails, the block comes free by itself
	}()
	k := keeper{dir: dir}
	for terms := l.Terms(); ; {
		ended := l.Err()          // before the grant is read: a lease that ends may take back what it granted
		born := generation(terms) // so is this: a block of an earlier generation does not count
		g := l.Grant()
		err := k.publish(ctx, block{Fleet: f, Block: g.Worker, From: g.From, To: g.To, Generation: born})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errRemoved):
			return err
		case err != nil:
			cmp.Or(opts.Logger, slog.Default()).Warn("hostlease: the block is not published; Keep tries again", "dir", dir, "error", err)
		}
		if ended != nil {
			return ended
		}
		if born != nil && terms.Generation.Load() != *born {
			_ = terms.Extend(ctx, g, time.Now()) // the machine was cloned: the lease renews itself at once, and takes another block
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.Done():
		case <-time.After(publishEvery):
		}
	}
}

// publishEvery is how often a keeper looks whether its lease was renewed, and whether what it published is still there.
const publishEvery = 100 * time.Millisecond

// keeper is what has been published of one lease.
type keeper struct {
	dir     string
	numbers string // the name of the folder of numbers
	told    []byte // what was published last; nil if nothing was
}

// publish publishes b, with the folder of numbers that is published already or, if there is none, a new one.
func (k *keeper) publish(ctx context.Context, b block) error {
	is, e, err := read(ctx, k.dir)
	if err != nil && e.Version == "" {
		return err
	}
	name := ""
	if is != nil {
		name = is.Numbers
	}
	if k.told == nil { // no process has the lease, so it may have any folder
		k.numbers = cmp.Or(name, rand.Text())
	} else if name != k.numbers {
		return errRemoved
	}
	b.Numbers = k.numbers
	value, err := json.Marshal(b)
	if err != nil || bytes.Equal(value, k.told) {
		return err
	}
	if _, err = published(k.dir).Put(ctx, blockKey, e.Version, value); err == nil {
		k.told = value
	}
	return err
}

// with returns a copy of opts with a layout.
func with(layout snowflake.Layout, opts *lease.Options) *lease.Options {
	var o lease.Options
	if opts != nil {
		o = *opts
	}
	o.Layout = layout
	return &o
}

// Lease is a worker ID of the host's block. It is for [snowflake.NewLeased]. If the host gets another block, the
// worker ID changes, and later IDs are greater.
type Lease struct {
	*lease.Lease // of the number in the block
	f            Fleet
	dir, numbers string
	block        atomic.Pointer[block]
	lost         atomic.Pointer[error] // why the lease ended, if it was not released
}

// Acquire takes a worker ID of the block that a keeper has published in dir. If there is no block, it waits for it until ctx is
// done; then the error matches ErrNoBlock. opts are the options of lease.Acquire; Layout is the
// fleet's, and Window is how long the number in the block stays unused after a crash.
func (f Fleet) Acquire(ctx context.Context, dir string, opts *lease.Options) (*Lease, error) {
	_, process, err := f.parts()
	if err != nil {
		return nil, err
	}
	l := &Lease{f: f, dir: dir}
	for err == nil {
		var b *block
		switch b, err = l.read(ctx); {
		case ctx.Err() != nil:
			err = fmt.Errorf("%w: no keeper has published it in %s: %w", ErrNoBlock, dir, ctx.Err())
		case err != nil:
		case b != nil && l.Lease == nil:
			l.numbers = b.Numbers
			l.Lease, err = lease.Acquire(ctx, numbers(dir, b.Numbers), with(process, opts))
		case l.block.Load() != nil: // the block is still published with the folder that the number is of
			return l, nil
		default:
			sleep(ctx, publishEvery)
		}
	}
	if l.Lease == nil {
		return nil, err
	}
	l.release()
	if errors.Is(err, lease.ErrLost) { // the directory was removed meanwhile
		return f.Acquire(ctx, dir, opts)
	}
	return nil, err
}

// release releases the number in the block.
func (l *Lease) release() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.Lease.Release(ctx) // if it fails, the number comes free by itself
}

// read reads the block that is published now, and takes it over if the lease has a number, and the block counts.
func (l *Lease) read(ctx context.Context) (*block, error) {
	b, _, err := read(ctx, l.dir)
	switch {
	case err != nil || b == nil:
		return nil, err
	case b.Fleet != l.f:
		return nil, fmt.Errorf("%w: the keeper divides %v after %d bits, and this process %v after %d", lease.ErrLayout, b.Fleet.Layout, b.Fleet.HostBits, l.f.Layout, l.f.HostBits)
	case l.Lease == nil:
	case b.Numbers != l.numbers:
		return nil, fmt.Errorf("%w: the directory %s was removed and made again; acquire a lease again", lease.ErrLost, l.dir)
	case b.counts(generation(l.Lease.Terms())):
		l.block.Store(b)
	}
	return b, nil
}

// Err returns nil until Done is closed. After that it returns an error that matches lease.ErrReleased or lease.ErrLost.
func (l *Lease) Err() error {
	err := l.Lease.Err()
	if lost := l.lost.Load(); err != nil && lost != nil {
		return *lost
	}
	return err
}

// Stats returns how the lease is doing. Bound is the end of the span that lies in both windows.
func (l *Lease) Stats() lease.Stats {
	s := l.Lease.Stats()
	s.Bound = l.Grant().To
	return s
}

// Grant returns the worker ID, and the span of time that lies in both windows.
func (l *Lease) Grant() snowflake.Grant {
	g, b := l.Lease.Grant(), l.block.Load()
	g.Worker += b.Block << (l.f.Layout.WorkerBits - l.f.HostBits)
	if b.From.After(g.From) {
		g.From = b.From
	}
	if b.To.Before(g.To) {
		g.To = b.To
	}
	return g
}

// Worker returns the worker ID.
func (l *Lease) Worker() int { return l.Grant().Worker }

// Terms is called by [snowflake.NewLeased].
func (l *Lease) Terms() contract.Terms[snowflake.Layout, snowflake.Clock, snowflake.Grant] {
	t := l.Lease.Terms()
	layout, bind, extend := t.Layout, t.Bind, t.Extend
	t.Layout, t.CanBump, t.Bump = l.f.Layout, nil, nil
	t.Bind = func(b contract.Binding[snowflake.Layout]) error {
		if b.Layout != l.f.Layout {
			return fmt.Errorf("%w: the generator has %v, and the fleet %v", lease.ErrLayout, b.Layout, l.f.Layout)
		}
		b.Layout = layout
		stop := b.Stop
		b.Stop = func(cause error) time.Time {
			if lost := l.lost.Load(); lost != nil {
				cause = *lost
			}
			return stop(cause)
		}
		return bind(b)
	}
	t.Extend = func(ctx context.Context, g snowflake.Grant, now time.Time) error {
		for begun := time.Now(); ; {
			if _, err := l.read(ctx); err != nil {
				if errors.Is(err, lease.ErrLost) && l.lost.CompareAndSwap(nil, &err) {
					go l.release()
				}
				return err
			}
			is, own := l.Grant(), l.Lease.Grant()
			switch {
			case is.Worker != g.Worker || !is.From.Equal(g.From) || is.To.After(g.To):
				return nil
			case !own.To.After(g.To): // the window of the number in the block has ended, too
				if err := extend(ctx, own, now); err != nil {
					return err
				}
			case time.Since(begun) > patience+g.To.Sub(now):
				return fmt.Errorf("%w: its keeper has not renewed it since %v", ErrNoBlock, g.To)
			case !sleep(ctx, publishEvery/10):
				return ctx.Err()
			}
		}
	}
	return t
}

// patience is how long a call waits for a keeper whose window has ended: a keeper that was frozen with its host renews at once.
const patience = time.Second

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
