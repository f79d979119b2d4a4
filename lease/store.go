package lease

import (
	"context"
	"errors"
	"time"
)

// Store is an engine that can compare and set, and no more is asked of it. It keeps an Entry for
// each key. Package leasetest checks an implementation.
//
// Implementations are safe for concurrent use. They keep what was stored across crashes of
// the clients and, as far as the engine promises, of the server. If the context is done
// beforehand, a method does nothing and returns the context's error. Arguments and results
// share no memory with the store.
//
// Keys have 1 to 100 characters: lower-case letters, digits, '/', '-' and '.'. They begin
// and end with a letter or a digit, and two of '/', '-' and '.' never stand side by side. No
// key is another key and '/' and more. Values are UTF-8 text without NUL, of up to 64 KiB.
//
// A Store may also have a method Now(context.Context) (time.Time, error), if its engine has a clock
// that clients can ask (errors.ErrUnsupported says that this one has none), and be a [Windower]. If
// its engine can be asked for settings with which it may lose acknowledged writes, the Store may
// have a method Settings(context.Context) ([]string, error), which returns those that are set so,
// such as "appendonly = no". Each lease calls it once, logs a warning, and shows them in Stats.
type Store interface {
	// Get returns the entry of key, as the last Put or Delete that had returned before Get
	// was called left it, or a later one. If there is none, its Version is empty. If there is
	// one and it cannot be read, the error matches ErrBadRecord, and the entry has its Key and a
	// Version, which Put and Delete take for old: package lease replaces it. The Version is the
	// same as long as the entry is, and is not the one that it had when it could be read. It is
	// empty only if the entry is another program's, and must not be replaced: then Acquire
	// returns the error at once.
	Get(ctx context.Context, key string) (Entry, error)

	// List returns the entries whose keys begin with prefix, in any order. Each was stored
	// at some moment after List was called. An entry that cannot be read has the Version that Get
	// returns and no Value: if it were left out, it would look as if it did not exist.
	List(ctx context.Context, prefix string) ([]Entry, error)

	// Put stores value if the entry's version is still old; "" means that there is no entry.
	// Otherwise the error matches ErrConflict. It is atomic: of two Puts with the same old
	// only one succeeds, however late the other one arrives. Put returns the entry once it
	// will survive a crash.
	//
	// After any other error nobody knows whether value was stored, or will be.
	Put(ctx context.Context, key, old string, value []byte) (Entry, error)

	// Delete removes the entry if its version is still old. Otherwise, also if there is no
	// entry, the error matches ErrConflict. After any other error nobody knows whether the
	// entry was removed, or will be.
	Delete(ctx context.Context, key, old string) error
}

// Entry is what a Store keeps for a key.
type Entry struct {
	Key string

	// Version is another one for each value that the key ever has, even after a Delete or after the
	// loss of all entries.
	Version string

	Value []byte
	Time  time.Time // when it was stored, by the engine's clock; zero if the engine has no clock
}

// Windower is a Store that chooses the window of leases whose Options.Window is 0. A store
// that wraps another store passes its DefaultWindow on.
type Windower interface {
	// DefaultWindow returns the window. If it is 0 or less, Acquire takes 3 s.
	DefaultWindow() time.Duration
}

// ErrConflict is returned by Store.Put and Store.Delete if the entry has another version
// than the caller names.
var ErrConflict = errors.New("lease: the entry has another version")

// ErrAway marks an error of a Store that cannot answer now and soon will, for example
// because it restarts. [Acquire] also tries again after errors without this mark, unless they
// match ErrRefused, ErrInvalidOptions, ErrBadRecord or errors.ErrUnsupported.
var ErrAway = errors.New("lease: the store is away")

// ErrRefused marks an error of a Store that will not pass if the store is asked again, because the
// engine refuses this client: its password is wrong, or it lacks rights. [Acquire] returns such an
// error at once.
var ErrRefused = errors.New("lease: the store refuses this client")
