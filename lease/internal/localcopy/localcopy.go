// Package localcopy keeps a copy of a lease in a directory of its host, so that the owner can start
// and continue while the store is away. What the rest of the leases knows of it is what any store
// may say: see book.Offline.
package localcopy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Store is a store around a store, the shared one. It keeps the records of one owner in a directory
// of this host. These copies are the records that count. Nobody else writes them, because the
// owner's name has the identity of the directory in it, and a kept worker ID goes to no other
// owner. The shared store says which owner has which worker ID, and is told of every save as soon
// as it answers.
//
// A worker ID is taken in three saves: here as wanted, in the shared store as held, here as held.
// The entry of a wanted worker ID is the record from before, after the word wanted.
//
// INVARIANT: while a worker ID is wanted here, nobody who has this directory has stamped it at or
// after the bounds of the record from before. So if the record in the shared store belongs to an
// owner of this directory, the worker ID is free from these bounds on.
//
// Why it holds. Stamping begins after the third save, and a worker ID that is given back is saved
// as wanted again first. Each save here names the version that it was made from, so of two
// processes that take a worker ID only one makes the third save.
type Store struct {
	shared   driver.Store
	local    Directory
	owner    string
	patience time.Duration // with the shared store

	away atomic.Pointer[error] // why the shared store was not told of the last save
	lost atomic.Bool           // the shared store lost the record

	turn   chan struct{}           // whoever takes the value out may use the fields that follow
	active bool                    // a worker ID of the owner is in use here
	there  map[string]driver.Entry // entries that the shared store is known to have
	asked  time.Time               // when the shared store last did not answer
}

// Directory is where the copies are.
type Directory struct {
	driver.Store        // of the directory
	Path         string // of the directory

	// Failed returns the error for a file that cannot be used.
	Failed func(path string, err error) error
}

const (
	wanted      = "wanted\n"
	fromHere    = "here " // before the versions of records that are here
	identityKey = "identity"
)

// New returns s with copies of the records of an owner, whose name gets the directory's identity.
// It waits for s, and for each later answer of s, no longer than patience.
func New(ctx context.Context, s driver.Store, local Directory, owner string, patience time.Duration) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id, err := local.Get(ctx, identityKey)
	if err == nil && id.Version == "" {
		id, err = local.Put(ctx, identityKey, "", []byte(machine.RandomText()))
		if errors.Is(err, driver.ErrConflict) {
			id, err = local.Get(ctx, identityKey)
		}
		if is, bad := s.Get(ctx, identityKey); err == nil && bad == nil && is.Version == id.Version {
			err = errors.Join(fmt.Errorf("%w: LocalCopy is the directory of the store itself, %s", driver.ErrInvalidOptions, local.Path),
				local.Delete(ctx, identityKey, id.Version))
		}
	}
	if err != nil {
		return nil, err
	}
	c := &Store{shared: s, local: local, owner: owner + " @" + string(id.Value), patience: patience,
		turn: make(chan struct{}, 1), there: map[string]driver.Entry{}}
	c.turn <- struct{}{}
	all, err := local.List(ctx, book.RecordPrefix)
	if err != nil {
		return nil, err
	}
	c.active = slices.ContainsFunc(all, c.owns)
	return c, nil
}

// Owner returns the owner's name, with the directory's identity.
func (c *Store) Owner() string { return c.owner }

// State is a Store's knowledge that is not in the directory.
type State struct {
	Active, Lost bool
	Away         error
	Asked        time.Time
	There        map[string]driver.Entry
}

// State returns what c knows. It must not be called during another call.
func (c *Store) State() State {
	return State{c.active, c.lost.Load(), c.WhyAway(), c.asked, maps.Clone(c.there)}
}

// owns reports whether e is a record of the owner, and is not retired.
func (c *Store) owns(e driver.Entry) bool {
	var r protocol.Record
	return json.Unmarshal(e.Value, &r) == nil && r.Owner == c.owner && !r.Retired()
}

// inTurn calls f when no other call is under way.
func inTurn[T any](ctx context.Context, c *Store, f func() (T, error)) (none T, err error) {
	turn, err := machine.TakeOut(ctx, c.turn)
	if err != nil {
		return none, err
	}
	defer func() { c.turn <- turn }()
	return f()
}

// ask makes a request to the shared store. If the owner has a worker ID here, it can continue
// without an answer: then ask reports after an error that the shared store is away, and does not
// make another request for a sixth of the patience.
func ask[T any](ctx context.Context, c *Store, request func(context.Context) (T, error)) (answer T, isAway bool, err error) {
	if !c.active {
		answer, err = request(ctx)
		return answer, false, err
	}
	if c.away.Load() != nil && machine.Since(c.asked) < c.patience/6 {
		return answer, true, nil
	}
	patience := c.patience
	if by, ok := ctx.Deadline(); ok {
		patience = time.Until(by) / 2 // so that time is left to continue without it
	}
	half, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err = request(half)
	switch {
	case err == nil || errors.Is(err, driver.ErrConflict):
		c.away.Store(nil)
		return answer, false, err
	case ctx.Err() != nil || errors.Is(err, driver.ErrBadRecord):
		return answer, false, err
	}
	if c.away.Load() == nil || !book.IsTimeout(err) { // a time-out does not replace the error before it
		why := err
		c.away.Store(&why)
	}
	c.asked = machine.Now()
	return answer, true, nil
}

// WhyAway returns why the shared store was not told of the last save; nil if it was.
func (c *Store) WhyAway() error {
	if err := c.away.Load(); err != nil {
		return *err
	}
	return nil
}

// HasLost reports whether the shared store lost the record since the last call of HasLost.
func (c *Store) HasLost() bool { return c.lost.Swap(false) }

// Trace returns the shared store's trace.
func (c *Store) Trace(ctx context.Context) (of string, told bool, err error) {
	return book.TraceOf(ctx, c.shared)
}

// Now returns the engine's time if the shared store answers.
func (c *Store) Now(ctx context.Context) (time.Time, error) {
	return inTurn(ctx, c, func() (time.Time, error) {
		now, _, err := ask(ctx, c, func(ctx context.Context) (time.Time, error) { return book.ClockOf(ctx, c.shared) })
		return now, err
	})
}

// Get returns the owner's record as it is here, and all else as it is in the shared store.
// While the shared store is away, it also returns the copies that a start needs.
func (c *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	return inTurn(ctx, c, func() (driver.Entry, error) {
		if worker, ok := book.WorkerOf(book.RecordPrefix, key); ok {
			return c.get(ctx, worker)
		}
		e, isAway, err := c.fetch(ctx, key)
		if isAway {
			if e, err = c.local.Get(ctx, key); err == nil && e.Version == "" {
				err = c.WhyAway()
			}
		}
		return e, err
	})
}

// fetch returns the shared store's entry.
func (c *Store) fetch(ctx context.Context, key string) (there driver.Entry, isAway bool, err error) {
	there, isAway, err = ask(ctx, c, func(ctx context.Context) (driver.Entry, error) { return c.shared.Get(ctx, key) })
	c.there[key] = there
	return there, isAway, err
}

// shown returns a record of the directory as callers see it.
func (c *Store) shown(here driver.Entry) driver.Entry {
	here.Version, here.Time = fromHere+here.Version, c.there[here.Key].Time
	return here
}

// get returns the record of a worker ID. It first sends the shared store the saves that it missed.
func (c *Store) get(ctx context.Context, worker int) (driver.Entry, error) {
	key := book.RecordKey(worker)
	here, err := c.local.Get(ctx, key)
	if err != nil {
		return here, err
	}
	there, isAway, err := c.fetch(ctx, key)
	switch held := c.owns(here); {
	case err != nil:
		return there, err
	case isAway && !held:
		return there, c.WhyAway()
	case isAway:
		return c.shown(here), nil
	case held:
		if c.owns(there) {
			here, err = c.merge(ctx, worker, here, there)
			if errors.Is(err, driver.ErrConflict) { // another process of the owner saved it first
				return c.get(ctx, worker)
			}
			if err != nil {
				return here, err
			}
		}
		if err := c.push(ctx, worker, here); errors.Is(err, driver.ErrConflict) {
			return c.there[key], nil
		} else if err != nil {
			return here, err
		}
		return c.shown(here), nil
	case c.owns(there):
		return unstamped(worker, here, there)
	}
	return there, nil
}

// merge saves here the later bounds of both records, in case the copy was put back from a backup.
func (c *Store) merge(ctx context.Context, worker int, here, there driver.Entry) (driver.Entry, error) {
	is, err := protocol.DecodeRecord(worker, here)
	was, bad := protocol.DecodeRecord(worker, there)
	next := is.WithBoundsOf(was)
	if err := errors.Join(err, bad); err != nil || slices.EqualFunc(is.Bounds, next.Bounds, time.Time.Equal) {
		return here, err
	}
	value, err := next.Encode()
	if err != nil {
		return here, err
	}
	return c.local.Put(ctx, here.Key, here.Version, value)
}

// unstamped returns the shared store's record of a worker ID that is the owner's there, and
// is not held here. If it is wanted here, the record is as it was before it was taken.
// Otherwise the last tick stamped is not known.
func unstamped(worker int, here, there driver.Entry) (driver.Entry, error) {
	r, err := protocol.DecodeRecord(worker, there)
	if err != nil {
		return there, err
	}
	r.State = protocol.StateSpent
	if value, ok := bytes.CutPrefix(here.Value, []byte(wanted)); ok {
		before := protocol.Record{Worker: worker, Bounds: make([]time.Time, 1)}
		if here.Value = value; len(value) > 0 {
			if before, err = protocol.DecodeRecord(worker, here); err != nil {
				return there, err
			}
		}
		r.State, r.NotBefore, r.ClockSeq, r.Bounds = protocol.StateFree, before.NotBefore, before.ClockSeq, before.Bounds
		r.From = r.Bound()
	}
	there.Value, err = r.Encode()
	return there, err
}

// List returns the records as Get does.
func (c *Store) List(ctx context.Context, prefix string) ([]driver.Entry, error) {
	return inTurn(ctx, c, func() ([]driver.Entry, error) {
		all, isAway, err := ask(ctx, c, func(ctx context.Context) ([]driver.Entry, error) { return c.shared.List(ctx, prefix) })
		if isAway {
			all, err = c.local.List(ctx, prefix)
		}
		for i, e := range all {
			if worker, ok := book.WorkerOf(book.RecordPrefix, e.Key); ok && err == nil && c.owns(e) {
				all[i], err = c.get(ctx, worker)
			}
		}
		return all, err
	})
}

// Put saves a record of the owner here, and then tells the shared store.
func (c *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	return inTurn(ctx, c, func() (driver.Entry, error) {
		if worker, ok := book.WorkerOf(book.RecordPrefix, key); ok {
			return c.put(ctx, worker, old, value)
		}
		e, isAway, err := ask(ctx, c, func(ctx context.Context) (driver.Entry, error) { return c.shared.Put(ctx, key, old, value) })
		if isAway {
			return c.local.Put(ctx, key, old, value) // a part of the history; push sends it
		}
		c.there[key] = e
		return e, err
	})
}

func (c *Store) put(ctx context.Context, worker int, old string, value []byte) (driver.Entry, error) {
	key := book.RecordKey(worker)
	here, err := c.local.Get(ctx, key)
	if err != nil {
		return here, err
	}
	version, wasHere := strings.CutPrefix(old, fromHere)
	held, keeps := c.owns(here), c.owns(driver.Entry{Value: value})
	if held {
		c.active = keeps
	}
	switch {
	case wasHere && !held:
		return here, c.local.Failed(filepath.Join(c.local.Path, filepath.FromSlash(key)), fmt.Errorf("%w: the copy is gone", protocol.ErrLost))
	case held && keeps:
		if here, err = c.local.Put(ctx, key, version, value); err != nil {
			return here, err
		}
		err := c.push(ctx, worker, here)
		return c.shown(here), err
	case held: // the worker ID is given back, and was not stamped
		if _, err := c.local.Put(ctx, key, version, append([]byte(wanted), value...)); err != nil {
			return here, err
		}
		there, err := c.shared.Get(ctx, key)
		if err == nil && !c.owns(there) {
			err = fmt.Errorf("%w: worker %d is no longer the owner's", driver.ErrConflict, worker)
		}
		if err != nil {
			return there, err
		}
		return c.shared.Put(ctx, key, there.Version, value)
	case keeps:
		return c.take(ctx, here, driver.Entry{Key: key, Version: old, Value: value})
	}
	return c.shared.Put(ctx, key, old, value)
}

// take saves the first record of a worker ID, in three saves.
func (c *Store) take(ctx context.Context, here, next driver.Entry) (driver.Entry, error) {
	there, err := c.shared.Get(ctx, next.Key)
	// If the shared store already shows this owner, an earlier attempt recorded that the worker ID is
	// wanted. If it is wanted from the same record, another process is taking it: a save would change
	// nothing but the version, which that process has to name.
	if want := append([]byte(wanted), there.Value...); err == nil && !c.owns(there) && string(here.Value) != string(want) {
		here, err = c.local.Put(ctx, next.Key, here.Version, want)
	}
	if err != nil {
		return there, err
	}
	if there, err = c.shared.Put(ctx, next.Key, next.Version, next.Value); err != nil {
		return there, err
	}
	c.there[next.Key] = there
	for _, key := range []string{book.DoorKey, book.OwnerKey(c.owner)} { // a start needs them while the shared store is away
		known := c.there[key]
		if known.Version == "" {
			continue // the shared store was away when it was asked for the entry
		}
		is, err := c.local.Get(ctx, key)
		if err == nil && string(is.Value) != string(known.Value) {
			_, err = c.local.Put(ctx, key, is.Version, known.Value)
		}
		if err != nil {
			return driver.Entry{}, err
		}
	}
	here, err = c.local.Put(ctx, next.Key, here.Version, next.Value)
	return c.shown(here), err
}

// Delete deletes a record here and in the shared store.
func (c *Store) Delete(ctx context.Context, key, old string) error {
	_, err := inTurn(ctx, c, func() (none struct{}, err error) {
		if version, isHere := strings.CutPrefix(old, fromHere); isHere {
			if err := c.local.Delete(ctx, key, version); err != nil {
				return none, err
			}
			old = c.there[key].Version
		}
		return none, c.shared.Delete(ctx, key, old)
	})
	return err
}

// push saves the record that is here in the shared store, in place of any earlier record of
// the owner. If the shared store is away, push does nothing. If the worker ID is another
// owner's by now, or is retired, push removes the copy, and the error matches driver.ErrConflict.
func (c *Store) push(ctx context.Context, worker int, here driver.Entry) error {
	_, isAway, err := ask(ctx, c, func(ctx context.Context) (none struct{}, err error) { return none, c.send(ctx, worker, here) })
	if isAway {
		c.there[here.Key] = driver.Entry{}
	}
	if errors.Is(err, errTaken) {
		if failed := c.local.Delete(ctx, here.Key, here.Version); failed != nil {
			return fmt.Errorf("worker %d is no longer the owner's, and its copy cannot be removed: %w", worker, failed)
		}
	}
	return err
}

var errTaken = fmt.Errorf("%w: the worker ID is no longer the owner's", driver.ErrConflict)

// send makes push's requests to the shared store. If the store is away, it returns the store's
// error, and if the worker ID is no longer the owner's, errTaken.
func (c *Store) send(ctx context.Context, worker int, here driver.Entry) (err error) {
	there := c.there[here.Key]
	for try := range book.MaxConflicts {
		if try > 0 || !c.owns(there) {
			if there, err = c.shared.Get(ctx, here.Key); err != nil {
				return err
			}
			c.there[here.Key] = there
		}
		switch {
		case string(there.Value) == string(here.Value):
			return nil
		case there.Version != "" && !c.owns(there):
			return errTaken
		case there.Version == "": // the shared store has lost the record
			c.lost.Store(true)
			err = c.markAgain(ctx, worker, here)
		}
		if err = errors.Join(err, c.sendChunks(ctx, worker)); err == nil {
			if there, err = c.shared.Put(ctx, here.Key, there.Version, here.Value); err == nil {
				c.there[here.Key] = there
				return nil
			}
		}
		if !errors.Is(err, driver.ErrConflict) {
			return err
		}
	}
	return err
}

// markAgain makes the mark of a record that the shared store has lost.
func (c *Store) markAgain(ctx context.Context, worker int, here driver.Entry) error {
	r, err := protocol.DecodeRecord(worker, here)
	if err == nil {
		err = book.MarkWorker(book.LineTo(ctx, c.shared), r)
	}
	if errors.Is(err, book.ErrWiped) { // it has a mark
		return nil
	}
	return err
}

// sendChunks sends the history that was saved here while the shared store was away.
func (c *Store) sendChunks(ctx context.Context, worker int) error {
	chunks, err := c.local.List(ctx, book.ChunksPrefix(worker))
	for _, e := range chunks {
		if err == nil {
			if _, err = c.shared.Put(ctx, e.Key, "", e.Value); err == nil || errors.Is(err, driver.ErrConflict) {
				err = c.local.Delete(ctx, e.Key, e.Version)
			}
		}
	}
	return err
}
