// Package driver defines the interfaces of lease stores. Implementations import only this package;
// users import package lease, which has aliases of these names.
//
// A store is an engine with a compare-and-set: four methods on entries that have a key, a version
// and a value. Package lease builds the protocol of the leases (records, bounds, the watermark,
// lost entries) on these methods, for all stores. A store may also implement [Clock], [Windower]
// and [Settings].
//
// Package lease/leasetest tests an implementation. Package lease/zklease is a complete example.
package driver

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Store is an engine that stores an [Entry] for each key.
//
// Implementations are safe for concurrent use. Entries survive crashes of the clients and, as far
// as the engine guarantees it, of the server. If the context has ended, a method does nothing and
// returns the context's error. Arguments and results share no memory with the store.
//
// Keys have 1 to 100 characters: lower-case letters, digits, '/', '-' and '.'. They begin and end
// with a letter or a digit, and have no two of '/', '-' and '.' in a row. If a is a key, a/b is
// not. Values are UTF-8 text without NUL, of up to 64 KiB.
//
// The caller retries after an error, within its context, unless the error matches [ErrRefused],
// [ErrInvalidOptions], [ErrBadRecord] or errors.ErrUnsupported.
type Store interface {
	// Get returns the entry of key, with the effect of each Put and Delete that returned before Get
	// was called. If there is no entry, its Version is empty.
	//
	// If the entry cannot be read, the error matches ErrBadRecord, and the entry has its Key and a
	// Version with which Put and Delete can replace it. This Version stays the same until the entry
	// changes, and differs from that of the readable entry. It is empty only if the entry belongs
	// to another program and must not be replaced: then Acquire returns the error at once.
	Get(ctx context.Context, key string) (Entry, error)

	// List returns the entries whose keys begin with prefix, in any order. Each was stored at some
	// moment after List was called. An entry that cannot be read is included, with the Version that
	// Get returns and no Value.
	List(ctx context.Context, prefix string) ([]Entry, error)

	// Put stores value if the entry's version is still old; "" means that there is no entry. Otherwise
	// the error matches ErrConflict. Put is atomic: of two Puts with the same old only one succeeds,
	// however late the other one arrives. The entry that Put returns survives a crash.
	//
	// After any other error, value may or may not have been stored, and may still be stored later.
	Put(ctx context.Context, key, old string, value []byte) (Entry, error)

	// Delete removes the entry if its version is still old. Otherwise, or if there is no entry,
	// the error matches ErrConflict. After any other error, the entry may or may not have been
	// removed, and may still be removed later.
	Delete(ctx context.Context, key, old string) error
}

// Entry is the stored value of a key.
type Entry struct {
	Key string

	// Version is unique among the versions that the key ever has, even after a Delete or the loss
	// of all entries.
	Version string

	Value []byte
	Time  time.Time // the time of storing, by the engine's clock; zero if the engine has no clock
}

// Clock is a Store whose engine has a clock.
type Clock interface {
	// Now returns the time of the engine's clock. If this engine has none, the error matches
	// errors.ErrUnsupported.
	Now(ctx context.Context) (time.Time, error)
}

// Windower is a Store that chooses the window of leases whose Options.Window is 0. A store that
// wraps another store forwards its DefaultWindow.
type Windower interface {
	// DefaultWindow returns the window, at most MaxWindow. 0 or less means 3 s.
	DefaultWindow() time.Duration
}

// MaxWindow is the longest window of a lease, unless three ticks of its layout are longer.
const MaxWindow = 2 * time.Minute

// Settings is a Store that can read its engine's settings.
type Settings interface {
	// Settings returns the settings that let the engine lose acknowledged writes, such as
	// "appendonly = no". Each lease calls it once, logs a warning, and shows them in Stats.
	Settings(ctx context.Context) ([]string, error)
}

var (
	// ErrConflict is returned by Store.Put and Store.Delete if the entry's version is not old.
	ErrConflict = errors.New("lease: the entry has another version")

	// ErrAway is returned by a Store that cannot answer but soon will, for example because it is
	// restarting.
	ErrAway = errors.New("lease: the store is away")

	// ErrRefused is returned by a Store whose engine refuses this client, because its password is
	// wrong, or because it lacks rights. Acquire does not retry after such an error.
	ErrRefused = errors.New("lease: the store refuses this client")

	// ErrBadRecord is returned by Store.Get if the entry cannot be read.
	ErrBadRecord = errors.New("lease: bad record")

	// ErrInvalidOptions is returned by the constructors of stores if an option is out of range. It
	// is snowflake.ErrInvalidOptions.
	ErrInvalidOptions = snowflake.ErrInvalidOptions
)
