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
// # Why no ID repeats
//
// The high bits of a worker ID are the block b, the low bits are the number k in the block. The
// keeper's lease is a lease of b, and a process's lease is a lease of k in the directory. A process
// stamps b and k at the time t only if t is in both windows:
//
//  1. Windows of b of two keepers' leases have no instant in common (package lease).
//  2. Windows of k of two processes have no instant in common, if they have the same directory
//     (package lease).
//  3. So if two processes have stamped b, k and t, their keepers' leases are the same, by 1. A
//     keeper's lease is published in one directory, so they are processes of one directory. Then
//     they are the same process, by 2.
//
// The published window is saved in the fleet's store first, so a process that reads it late
// stamps less, and never more. No clock appears in this.
//
// # Hazards
//
// The hazards of package lease hold at both levels.
//
// HAZARD: if the directory is copied to another host, or shared with it, a keeper's window is
// published twice, and IDs may repeat until this window ends. A directory in /run, which is gone after a
// restart, is not copied.
package hostlease

import (
	"context"
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
	Fleet    Fleet
	Block    int
	From, To time.Time
}

// Workers returns the store of a host's directory, for [lease.Whois] and [lease.Holders]: which process had which number
// in the host's block. The fleet's store knows which host had which block.
func Workers(dir string) lease.Store { return lease.File(filepath.Join(dir, "workers")) }

func published(dir string) lease.Store { return lease.File(filepath.Join(dir, "host")) }

const blockKey = "block"

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
	l, err := lease.Acquire(ctx, fleet, with(host, opts))
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = l.Release(ctx) // if it fails, the block comes free by itself
	}()
	store, told := published(dir), snowflake.Grant{}
	for {
		if g := l.Grant(); g != told {
			if err := f.publish(ctx, store, g); err == nil {
				told = g
			} else if ctx.Err() == nil {
				slog.Warn("hostlease: the block is not published; Keep tries again", "dir", dir, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.Done():
			return l.Err()
		case <-time.After(publishEvery):
		}
	}
}

// publishEvery is how often a keeper looks whether its lease was renewed.
const publishEvery = 100 * time.Millisecond

func (f Fleet) publish(ctx context.Context, store lease.Store, g snowflake.Grant) error {
	value, err := json.Marshal(block{f, g.Worker, g.From, g.To})
	if err != nil {
		return err
	}
	is, err := store.Get(ctx, blockKey)
	if err == nil {
		_, err = store.Put(ctx, blockKey, is.Version, value)
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
	host         lease.Store
	block        atomic.Pointer[block]
}

// Acquire takes a worker ID of the block that a keeper has published in dir. If there is no block, it waits for it until ctx is
// done; then the error matches ErrNoBlock. opts are the options of lease.Acquire; Layout is the
// fleet's, and Window is how long the number in the block stays unused after a crash.
func (f Fleet) Acquire(ctx context.Context, dir string, opts *lease.Options) (*Lease, error) {
	_, process, err := f.parts()
	if err != nil {
		return nil, err
	}
	l := &Lease{f: f, host: published(dir)}
	for l.block.Load() == nil {
		if err := l.read(ctx); err != nil {
			return nil, err
		} else if l.block.Load() == nil && !sleep(ctx, publishEvery) {
			return nil, fmt.Errorf("%w: no keeper has published it in %s: %w", ErrNoBlock, dir, ctx.Err())
		}
	}
	if l.Lease, err = lease.Acquire(ctx, Workers(dir), with(process, opts)); err != nil {
		return nil, err
	}
	return l, nil
}

// read reads the block that is published now.
func (l *Lease) read(ctx context.Context) error {
	e, err := l.host.Get(ctx, blockKey)
	if err != nil || e.Version == "" {
		return err
	}
	var b block
	if err := json.Unmarshal(e.Value, &b); err != nil {
		return fmt.Errorf("%w: %s: %w", lease.ErrBadRecord, blockKey, err)
	}
	if b.Fleet != l.f {
		return fmt.Errorf("%w: the keeper divides %v after %d bits, and this process %v after %d", lease.ErrLayout, b.Fleet.Layout, b.Fleet.HostBits, l.f.Layout, l.f.HostBits)
	}
	l.block.Store(&b)
	return nil
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
		return bind(b)
	}
	t.Extend = func(ctx context.Context, g snowflake.Grant, now time.Time) error {
		for begun := time.Now(); ; {
			if err := l.read(ctx); err != nil {
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
