// Package driver defines what a store of leases has to do. Whoever implements a store imports
// this package alone; whoever uses one imports package lease, which has aliases of these names.
//
// A store is an engine that compares and sets, and no more is asked of it: four methods on entries
// that have a key, a version and a value. The protocol of the leases (records, bounds, the
// watermark, lost entries) is told above it, in package lease, once for all stores. A store may
// also implement [Clock], [Windower] and [Settings].
//
// Package leasetest, in the folder beside this one, checks an implementation. lease/zklease is an
// example of a whole one.
package driver

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Store is an engine that keeps an [Entry] for each key.
//
// Implementations are safe for concurrent use. They keep what was stored across crashes of the
// clients and, as far as the engine promises, of the server. If the context is done beforehand, a
// method does nothing and returns the context's error. Arguments and results share no memory with
// the store.
//
// Keys have 1 to 100 characters: lower-case letters, digits, '/', '-' and '.'. They begin and end
// with a letter or a digit, and two of '/', '-' and '.' never stand side by side. No key is another
// key and '/' and more. Values are UTF-8 text without NUL, of up to 64 KiB.
//
// A method's error is repeated within the caller's context, unless it matches [ErrRefused],
// [ErrInvalidOptions], [ErrBadRecord] or errors.ErrUnsupported.
type Store interface {
	// Get returns the entry of key, as the last Put or Delete that had returned before Get was
	// called left it, or a later one. If there is no entry, its Version is empty.
	//
	// If the entry cannot be read, the error matches ErrBadRecord, and the entry has its Key and a
	// Version, which Put and Delete take for old: package lease replaces it. The Version is the same
	// as long as the entry is, and differs from the one that it had when it could be read. It is
	// empty only if the entry is another program's and must not be replaced: then Acquire returns
	// the error at once.
	Get(ctx context.Context, key string) (Entry, error)

	// List returns the entries whose keys begin with prefix, in any order. Each was stored at some
	// moment after List was called. An entry that cannot be read has the Version that Get returns
	// and no Value: if it were left out, it would look as if it did not exist.
	List(ctx context.Context, prefix string) ([]Entry, error)

	// Put stores value if the entry's version is still old; "" means that there is no entry.
	// Otherwise the error matches ErrConflict. Put is atomic: of two Puts with the same old only
	// one succeeds, however late the other one arrives. Put returns the entry once it will survive
	// a crash.
	//
	// After any other error nobody knows whether value was stored, or will be.
	Put(ctx context.Context, key, old string, value []byte) (Entry, error)

	// Delete removes the entry if its version is still old. Otherwise, also if there is no entry,
	// the error matches ErrConflict. After any other error nobody knows whether the entry was
	// removed, or will be.
	Delete(ctx context.Context, key, old string) error
}

// Entry is what a Store keeps for a key.
type Entry struct {
	Key string

	// Version differs for each value that the key ever has, even after a Delete or after the loss
	// of all entries.
	Version string

	Value []byte
	Time  time.Time // the time of storing, by the engine's clock; zero if the engine has no clock
}

// Clock is a Store whose engine has a clock that clients can ask.
type Clock interface {
	// Now returns the time of the engine's clock. If this engine has none, the error matches
	// errors.ErrUnsupported.
	Now(ctx context.Context) (time.Time, error)
}

// Windower is a Store that chooses the window of leases whose Options.Window is 0. A store that
// wraps another store passes its DefaultWindow on.
type Windower interface {
	// DefaultWindow returns the window, of at most MaxWindow. If it is 0 or less, Acquire takes 3 s.
	DefaultWindow() time.Duration
}

// MaxWindow is the longest window of a lease, unless three ticks of its layout are longer.
const MaxWindow = 2 * time.Minute

// Settings is a Store whose engine can be asked for its settings.
type Settings interface {
	// Settings returns those settings with which the engine may lose acknowledged writes, such as
	// "appendonly = no". Each lease calls it once, logs a warning, and shows them in Stats.
	Settings(ctx context.Context) ([]string, error)
}

var (
	// ErrConflict is returned by Store.Put and Store.Delete if the entry has another version than
	// the caller names.
	ErrConflict = errors.New("lease: the entry has another version")

	// ErrAway marks an error of a Store that cannot answer now and soon will, for example because
	// it restarts.
	ErrAway = errors.New("lease: the store is away")

	// ErrRefused marks an error that asking again does not cure, because the engine refuses this
	// client: its password is wrong, or it lacks rights. Acquire returns such an error at once.
	ErrRefused = errors.New("lease: the store refuses this client")

	// ErrBadRecord is returned by Store.Get if the entry cannot be read.
	ErrBadRecord = errors.New("lease: bad record")

	// ErrInvalidOptions is returned by the constructors of stores for an option that is out of its
	// range. It is snowflake's.
	ErrInvalidOptions = snowflake.ErrInvalidOptions
)
