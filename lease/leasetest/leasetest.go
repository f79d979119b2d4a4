// Package leasetest tests implementations of [lease.Store]. An implementation calls [Run] in a
// test, with a real engine:
//
//	func TestStore(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) leasetest.Storage {
//			dir := t.TempDir()
//			return leasetest.Storage{
//				Open: func() lease.Store { return lease.File(dir) },
//				Wipe: func() { os.RemoveAll(dir) },
//			}
//		}, nil)
//	}
//
// Run cannot make the engine fail, so it does not test that entries survive a crash, nor that
// versions do not repeat after a backup is restored. If the engine is unavailable for a moment,
// like a cluster without a leader, Run repeats the test with another storage.
package leasetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Storage holds the entries of one test, for example in a directory, a table or under a prefix of
// keys.
type Storage struct {
	// Open returns a new client of the storage, as another process would have. A test calls it up
	// to 20 times. If a client must be closed, close it in t.Cleanup.
	Open func() lease.Store

	// Wipe removes all entries and everything that holds them, such as a table, as an operator
	// might by mistake, and resets the engine's counters. If Wipe is nil, wiped stores are not
	// tested.
	Wipe func()

	// Garble makes the entry of a key unreadable, for example by truncating it. If the store can
	// read any content of the engine, leave Garble nil: the tests then store a value that package
	// lease cannot read.
	Garble func(key string)
}

// Options holds the settings of Run. Nil and the zero value mean the defaults.
type Options struct {
	// Window is the window of a holder that crashes. A test waits for its end. If a Put takes more
	// than a tenth of it, set a longer one. The default is 500 ms.
	Window time.Duration

	// FakeTime runs each test in a bubble of testing/synctest, which needs Go 1.25. Set it only if
	// the store keeps its entries in memory or files, shares nothing with goroutines outside the
	// test, and waits by package time.
	FakeTime bool

	// Parallel runs the tests in parallel. Then Run returns before the tests have ended, and fresh
	// may be called concurrently.
	Parallel bool
}

// Run runs each test as a subtest. fresh returns an empty storage, for each run of a test. With a
// fast engine, Run takes a few seconds.
func Run(t *testing.T, fresh func(t *testing.T) Storage, opts *Options) {
	if opts == nil {
		opts = new(Options)
	}
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"PutAndDeleteCompareTheVersion", (*suite).compare},
		{"VersionsNeverRepeat", (*suite).versions},
		{"EntriesAreReturnedUnchanged", (*suite).values},
		{"KeysAreTakenLiterally", (*suite).keys},
		{"ListReturnsAPrefix", (*suite).prefixes},
		{"ListReturnsAll", (*suite).all},
		{"EntriesShareNoMemory", (*suite).noAliases},
		{"ReadersSeeWhatWasStored", (*suite).readersKeepUp},
		{"OneOfManyWins", (*suite).oneWins},
		{"DoneContextChangesNothing", (*suite).doneContext},
		{"LatePutsChangeNothing", (*suite).latePuts},
		{"TimesAreTheEnginesTimes", (*suite).times},
		{"VersionsDoNotRepeatAfterWipe", (*suite).wiped},
		{"UnreadableEntryIsAnError", (*suite).garbled},

		{"LeasesChangeHands", (*suite).leases},
		{"WorkerIDOfACrashedHolderIsReused", (*suite).crashed},
		{"LostRecordIsPutBack", (*suite).lost},
		{"UnreadableEntriesAreReplaced", (*suite).unreadable},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
				defer cancel()
				for n := 1; ; n++ {
					s := &suite{T: t, ctx: ctx, window: cmp.Or(opts.Window, 500*time.Millisecond), last: n == tries}
					if s.storage = fresh(t); s.try(test.run) {
						return
					}
					time.Sleep(s.window)
				}
			}
			if opts.Parallel {
				t.Parallel()
			}
			if opts.FakeTime {
				bubble(t, func(t *testing.T) {
					// A bubble begins in the year 2000, before the epochs of the layouts.
					time.Sleep(time.Until(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
					run(t)
				})
			} else {
				run(t)
			}
		})
	}
}

// suite is the state of one test.
type suite struct {
	*testing.T
	ctx     context.Context // with a deadline, in case the store hangs
	storage Storage
	window  time.Duration
	last    bool        // the last try: a check fails the test even if the store was away
	away    atomic.Bool // a check failed because the store was away
}

// tries is the number of tries after which a store that is away fails the test.
const tries = 5

// errAway is the panic that ends a try.
var errAway = errors.New("the store was away")

// try runs the test, and reports whether the result counts. It does not if a check failed because
// the store was away or late.
func (s *suite) try(test func(*suite)) (hasResult bool) {
	defer func() {
		hasResult = !s.away.Load()
		if r := recover(); r != nil && r != errAway {
			panic(r)
		}
	}()
	test(s)
	return
}

// Errorf reports a failed check. If an argument is an error of a store that is away or late, the
// test is repeated instead.
func (s *suite) Errorf(format string, args ...any) {
	s.Helper()
	isAway := func(arg any) bool {
		err, ok := arg.(error)
		return ok && (errors.Is(err, lease.ErrAway) || errors.Is(err, context.DeadlineExceeded)) && s.ctx.Err() == nil
	}
	if !s.last && (s.away.Load() || slices.ContainsFunc(args, isAway)) {
		s.away.Store(true)
		s.Logf("the test is repeated: "+format, args...)
		return
	}
	s.T.Errorf(format, args...)
}

// Fatalf calls Errorf and ends the try. It must be called from the test's goroutine.
func (s *suite) Fatalf(format string, args ...any) {
	s.Helper()
	if s.Errorf(format, args...); s.away.Load() {
		panic(errAway)
	}
	s.FailNow()
}

// Failed reports whether a check has failed.
func (s *suite) Failed() bool { return s.away.Load() || s.T.Failed() }

// open opens n clients.
func (s *suite) open(n int) []lease.Store {
	stores := make([]lease.Store, n)
	for i := range stores {
		stores[i] = s.storage.Open()
	}
	return stores
}

// wants checks that err matches target.
func (s *suite) wants(err, target error, format string, args ...any) {
	s.Helper()
	if !errors.Is(err, target) {
		s.Fatalf("%s: the error is %v, not an error that matches %q", fmt.Sprintf(format, args...), err, fmt.Sprint(target))
	}
}

// put stores value, and checks the entry that Put returns.
func (s *suite) put(store lease.Store, key, old, value string) lease.Entry {
	s.Helper()
	e, err := store.Put(s.ctx, key, old, []byte(value))
	if err != nil {
		s.Fatalf("putting %s: %v", brief(key), err)
	}
	if e.Key != key || string(e.Value) != value || e.Version == "" || e.Version == old {
		s.Fatalf("Put(%s, %q, %s) returns %s", brief(key), old, brief(value), show(e))
	}
	return e
}

func (s *suite) delete(store lease.Store, key, old string) {
	s.Helper()
	if err := store.Delete(s.ctx, key, old); err != nil {
		s.Fatalf("deleting %s: %v", brief(key), err)
	}
}

func (s *suite) get(store lease.Store, key string) lease.Entry {
	s.Helper()
	e, err := store.Get(s.ctx, key)
	if err != nil {
		s.Fatalf("getting %s: %v", brief(key), err)
	}
	if e.Version != "" && e.Key != key {
		s.Fatalf("Get(%s) returns %s", brief(key), show(e))
	}
	return e
}

// list returns the entries sorted by key.
func (s *suite) list(store lease.Store, prefix string) []lease.Entry {
	s.Helper()
	entries, err := store.List(s.ctx, prefix)
	if err != nil {
		s.Fatalf("listing %q: %v", prefix, err)
	}
	slices.SortFunc(entries, func(a, b lease.Entry) int { return cmp.Compare(a.Key, b.Key) })
	for i := range entries {
		if i > 0 && entries[i].Key == entries[i-1].Key {
			s.Fatalf("List(%q) returns %s twice", prefix, brief(entries[i].Key))
		}
	}
	return entries
}

// has checks that List and Get return exactly these entries.
func (s *suite) has(store lease.Store, want ...lease.Entry) {
	s.Helper()
	slices.SortFunc(want, func(a, b lease.Entry) int { return cmp.Compare(a.Key, b.Key) })
	got := s.list(store, "")
	if !slices.EqualFunc(got, want, equal) {
		s.Fatalf("List returns %s, not %s", show(got...), show(want...))
	}
	for _, e := range want {
		if got := s.get(store, e.Key); !equal(got, e) {
			s.Fatalf("Get returns %s, not %s", show(got), show(e))
		}
	}
}

func (s *suite) hasNo(store lease.Store, key string) {
	s.Helper()
	if e := s.get(store, key); e.Version != "" {
		s.Fatalf("there is an entry: %s", show(e))
	}
}

func equal(a, b lease.Entry) bool {
	return a.Key == b.Key && a.Version == b.Version && string(a.Value) == string(b.Value) && a.Time.Equal(b.Time)
}

// show returns a short description of entries.
func show(entries ...lease.Entry) string {
	text := fmt.Sprintf("%d entries:", len(entries))
	for _, e := range entries[:min(len(entries), 5)] {
		text += fmt.Sprintf(" {%s, version %q, value %s, %v}", brief(e.Key), e.Version, brief(string(e.Value)), e.Time)
	}
	return text
}

func brief(text string) string {
	if len(text) > 60 {
		return fmt.Sprintf("%.60q and more, %d bytes", text, len(text))
	}
	return fmt.Sprintf("%q", text)
}

// together calls f n times concurrently, and waits until all calls have returned.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			<-start
			f(i)
		}()
	}
	close(start)
	wg.Wait()
}
