// Package leasetest checks that a [lease.Store] does what package lease asks of
// it. An implementation calls [Run] in a test, with an engine that is real:
//
//	func TestStore(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) leasetest.Storage {
//			dir := t.TempDir()
//			return leasetest.Storage{
//				Open: func() lease.Store { return lease.File(dir) },
//			}
//		}, nil)
//	}
//
// Run cannot make the engine fail, so it does not check that a record survives a crash. It
// checks that an unreadable record is an error only if Storage.Garble is set.
package leasetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Storage keeps the records of one test, in a directory, a table or a prefix of keys, for example.
type Storage struct {
	// Open opens one more client of the storage, as another process would. A test calls
	// it up to 50 times. If a client has to be closed, close it in t.Cleanup.
	Open func() lease.Store

	// Garble makes the record of a worker unreadable, for example by cutting it short. If
	// Garble is nil, the test of unreadable records is skipped.
	Garble func(worker int)

	// Wipe removes all records, as a mistake of an operator or a flush of the engine would.
	// It leaves what the store keeps elsewhere to notice the loss. If Wipe is nil, the test of
	// lost records is skipped.
	Wipe func()
}

// Options are the settings of Run. The zero value, and nil, consist entirely of
// defaults.
type Options struct {
	// Window is the lease window of holders that crash or are cut off. The tests wait until
	// it ends. If a save takes more than a tenth of it, set a longer one. 0: 500 ms.
	Window time.Duration

	// FakeTime runs each test in a bubble of testing/synctest. Waiting takes no time there, and
	// a slow machine makes no difference. Set it only if the store keeps its records in memory
	// or in files, shares nothing with goroutines outside of the test, and waits by package
	// time.
	FakeTime bool

	// Parallel runs the tests at once, as far as the flag -parallel allows. Then Run returns
	// before the tests have ended, and several tests may call fresh at once.
	Parallel bool
}

// Run runs every test as a subtest. For each, fresh returns an empty storage that no other test
// uses. If the engine is quick and the window is the default, Run takes about five seconds. If
// the environment variable SNOWFLAKE_FULL is 1, it checks longer histories.
func Run(t *testing.T, fresh func(t *testing.T) Storage, opts *Options) {
	if opts == nil {
		opts = new(Options)
	}
	window := cmp.Or(opts.Window, 500*time.Millisecond)
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"EmptyStorageHasNoRecords", (*suite).empty},
		{"FirstSaveHasVersion1", (*suite).firstVersion},
		{"EachSaveHasTheNextVersion", (*suite).nextVersion},
		{"RecordsComeBackAsTheyWere", (*suite).roundTrip},
		{"RecordsAreTheCallersOwn", (*suite).noAliases},
		{"RenewedIsTheStoresTime", (*suite).renewed},
		{"LoadWorkerReturnsOneRecord", (*suite).oneWorker},
		{"LoadsSeeWhatWasSaved", (*suite).loadsKeepUp},
		{"OneOfManySavesWins", (*suite).oneWins},
		{"WorkersDoNotDisturbOneAnother", (*suite).independent},
		{"DelayedRequestsChangeNothing", (*suite).delayed},
		{"DoneContextChangesNothing", (*suite).doneContext},
		{"SaveThatRanOutOfTimeIsWhole", (*suite).outOfTime},
		{"UnreadableRecordFailsAll", (*suite).garbled},
		{"WipedStoreIsNotNew", (*suite).wiped},

		{"HistoryKeepsWhatIsReplaced", (*suite).history},
		{"HoldingsComeBackAsTheyWere", (*suite).holdingsAsTheyWere},
		{"FailedSavesKeepNothing", (*suite).failedSavesKeepNothing},
		{"EachIDNamesItsIssuer", (*suite).issuers},
		{"OldHoldersAreForgotten", (*suite).forgotten},

		{"ManyAtOnceGetDifferentWorkerIDs", (*suite).manyAtOnce},
		{"FullRangeSaysWhoHoldsWhat", (*suite).fullRange},
		{"ReleaseFreesAtOnce", (*suite).releaseFrees},
		{"OwnersGetTheirWorkerIDBack", (*suite).sticky},
		{"KeptWorkerIDsGoToNoOtherOwner", (*suite).kept},
		{"WorkerIDsUsedOnce", (*suite).once},
		{"AnotherLayoutIsRefused", (*suite).anotherLayout},
		{"CrashedHoldersWorkerIDComesFree", (*suite).crashed},
		{"HolderThatWasCutOffIsFenced", (*suite).cutOff},
		{"SuccessorsNeverRepeatAnID", (*suite).successors},
		{"SuccessorsWithTheClockBehind", (*suite).clockBehind},
		{"CompetitorsNeverRepeatAnID", (*suite).competitors},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+20*window)
				defer cancel()
				test.run(&suite{t, ctx, fresh(t), window})
			}
			if opts.Parallel {
				t.Parallel()
			}
			if opts.FakeTime {
				synctest.Test(t, func(t *testing.T) {
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
}

// wants checks that err matches target.
func (s *suite) wants(err, target error, format string, args ...any) {
	s.Helper()
	if !errors.Is(err, target) {
		s.Fatalf("%s: the error is %v, not an error that matches %q", fmt.Sprintf(format, args...), err, target)
	}
}

// save saves r and returns the saved record. It fails the test if it cannot.
func (s *suite) save(store lease.Store, r lease.Record) lease.Record {
	s.Helper()
	saved, err := store.Save(s.ctx, r)
	if err != nil {
		s.Fatalf("saving version %d of worker %d: %v", r.Version, r.Worker, err)
	}
	return saved
}

// load returns what a client sees, with the records sorted by worker.
func (s *suite) load(store lease.Store) lease.Snapshot {
	s.Helper()
	snap, err := store.Load(s.ctx)
	if err != nil {
		s.Fatalf("loading: %v", err)
	}
	slices.SortFunc(snap.Records, func(a, b lease.Record) int { return a.Worker - b.Worker })
	for i, r := range snap.Records {
		if i > 0 && r.Worker == snap.Records[i-1].Worker {
			s.Fatalf("worker %d has two records", r.Worker)
		}
	}
	return snap
}

// holds checks that the storage has exactly these records, with equal Renewed.
func (s *suite) holds(store lease.Store, want ...lease.Record) {
	s.Helper()
	snap := s.load(store)
	got := snap.Records
	if len(got) != len(want) {
		s.Fatalf("there are %d records, not %d: %v", len(got), len(want), got)
	}
	for i := range want {
		if d := diff(got[i], watched(want[i], snap)); d != "" {
			s.Fatalf("worker %d: %s", want[i].Worker, d)
		}
	}
}

// watched returns r as Load returns it if the engine itself watches the holders. Such an engine may
// call a holder alive or gone whatever its last renewal was; then Renewed is as in the snapshot.
func watched(r lease.Record, snap lease.Snapshot) lease.Record {
	for _, got := range snap.Records {
		alive, gone := got.Renewed.Equal(snap.Now), got.Renewed.IsZero()
		if got.Worker == r.Worker && (alive && !r.Live(snap.Now) || gone && r.Live(snap.Now)) {
			r.Renewed = got.Renewed
		}
	}
	return r
}

// diff names the fields in which two records differ. Times are equal if they are the same instant.
func diff(got, want lease.Record) string {
	var b strings.Builder
	g, w := reflect.ValueOf(normal(got)), reflect.ValueOf(normal(want))
	for i := range g.NumField() {
		if has, wants := g.Field(i).Interface(), w.Field(i).Interface(); !reflect.DeepEqual(has, wants) {
			fmt.Fprintf(&b, "%s is %v, not %v; ", g.Type().Field(i).Name, has, wants)
		}
	}
	return b.String()
}

func normal(r lease.Record) lease.Record {
	bounds := make([]time.Time, len(r.Bounds))
	for i, b := range r.Bounds {
		bounds[i] = b.UTC().Round(0)
	}
	r.Bounds, r.Renewed = bounds, r.Renewed.UTC().Round(0)
	r.From, r.Forgotten = r.From.UTC().Round(0), r.Forgotten.UTC().Round(0)
	return r
}

// record returns a held record, which differs from the worker's record of another version.
func (s *suite) record(worker int, version uint64) lease.Record {
	at := time.Date(2026, 11, 21, 12, 0, int(version%1000), worker, time.UTC)
	return lease.Record{
		Worker:  worker,
		Version: version,
		Token:   fmt.Sprintf("token %d", worker),
		State:   lease.Held,
		Owner:   fmt.Sprintf("owner %d", worker),
		Host:    "host",
		PID:     4242,
		Layout:  snowflake.DefaultLayout(),
		Bounds:  []time.Time{at},
		From:    at.Add(-time.Hour),
		Window:  long,
	}
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
