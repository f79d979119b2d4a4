// Package leasetest checks that a [lease.Store] does what package driver asks of it. An
// implementation calls [Run] in a test, with a real engine:
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
// Run cannot make the engine fail, so it does not check that an entry survives a crash, nor that
// versions do not repeat after a backup is restored. Wipe should also reset the engine's counters,
// as a new server would. If the engine is away for a moment, as a cluster without a leader is, the
// test begins anew with another storage.
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

// Storage keeps the entries of one test, in a directory, a table or a prefix of keys, for
// example.
type Storage struct {
	// Open opens one more client of the storage, as another process would. A test calls it
	// up to 20 times. If a client has to be closed, close it in t.Cleanup.
	Open func() lease.Store

	// Wipe removes all entries and whatever the store made to keep them, such as a table, as
	// a mistake of an operator would. If Wipe is nil, wiped stores are not tested.
	Wipe func()

	// Garble makes the entry of a key unreadable, for example by cutting it short. If any content
	// of the engine is a valid entry, Garble is nil, and the tests store a value that package lease
	// cannot read.
	Garble func(key string)
}

// Options are the settings of Run. The zero value consists entirely of defaults, and so
// does nil.
type Options struct {
	// Window is the window of a holder that crashes. A test waits until it ends. If a Put takes
	// more than a tenth of it, set a longer one. 0: 500 ms.
	Window time.Duration

	// FakeTime runs each test in a bubble of testing/synctest, which needs Go 1.25. Set it only
	// if the store keeps its entries in memory or in files, shares nothing with goroutines outside
	// of the test, and waits by package time.
	FakeTime bool

	// Parallel runs the tests at once, as far as the flag -parallel allows. Then Run returns
	// before the tests have ended, and several tests may call fresh at once.
	Parallel bool
}

// Run runs every test as a subtest. For each test, fresh returns an empty storage that no
// other test uses. It is called again if the store was away and the test begins anew. If the
// engine is quick, Run takes a few seconds.
func Run(t *testing.T, fresh func(t *testing.T) Storage, opts *Options) {
	if opts == nil {
		opts = new(Options)
	}
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"PutAndDeleteNameTheVersion", (*suite).compare},
		{"VersionsNeverRepeat", (*suite).versions},
		{"EntriesComeBackAsTheyWere", (*suite).values},
		{"KeysAreTakenLiterally", (*suite).keys},
		{"ListReturnsAPrefix", (*suite).prefixes},
		{"ListReturnsAll", (*suite).all},
		{"EntriesShareNoMemory", (*suite).noAliases},
		{"ReadersSeeWhatWasStored", (*suite).readersKeepUp},
		{"OneOfManyWins", (*suite).oneWins},
		{"DoneContextChangesNothing", (*suite).doneContext},
		{"LatePutsChangeNothing", (*suite).latePuts},
		{"TimesAreTheEnginesTimes", (*suite).times},
		{"WipedStoreStartsAnew", (*suite).wiped},
		{"UnreadableEntryIsAnError", (*suite).garbled},

		{"LeasesChangeHands", (*suite).leases},
		{"CrashedHoldersWorkerIDComesFree", (*suite).crashed},
		{"LostRecordIsPutBack", (*suite).lost},
		{"UnreadableEntriesAreReplaced", (*suite).unreadable},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
				defer cancel()
				for n := 1; ; n++ {
					s := &suite{T: t, ctx: ctx, window: cmp.Or(opts.Window, 500*time.Millisecond), counts: n == tries}
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
	ctx     context.Context // ends, so that the test fails if the store hangs
	storage Storage
	window  time.Duration
	counts  bool        // the last try: a failure counts even if the store was away
	away    atomic.Bool // a check failed since the store was away
}

// tries is how often a test is tried. A store that is away for longer fails it.
const tries = 5

// errAway ends a try.
var errAway = errors.New("the store was away")

// try runs the test, and reports whether it has a result. It has none if a check failed because the
// store was away or late: then nobody knows what was stored, so asking the store again is no use.
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

// Errorf reports a check that failed. If an argument is an error of a store that is away or late,
// the test begins anew.
func (s *suite) Errorf(format string, args ...any) {
	s.Helper()
	isAway := func(arg any) bool {
		err, ok := arg.(error)
		return ok && (errors.Is(err, lease.ErrAway) || errors.Is(err, context.DeadlineExceeded)) && s.ctx.Err() == nil
	}
	if !s.counts && (s.away.Load() || slices.ContainsFunc(args, isAway)) {
		s.away.Store(true)
		s.Logf("the test begins anew: "+format, args...)
		return
	}
	s.T.Errorf(format, args...)
}

// Fatalf is Errorf, and ends the try. The test's goroutine must call it.
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

// put stores value, and fails the test if it cannot. It checks the entry that Put returns.
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

// has checks that a client sees exactly these entries, by List and by Get.
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

// show describes entries in a few words.
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

// together runs f n times at once, and waits until all calls have returned.
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
