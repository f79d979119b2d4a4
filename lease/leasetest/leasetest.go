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
// What it cannot check is what a Store does when its engine fails: that a record
// survives a crash, and that one which cannot be read is an error (but see
// Storage.Garble).
package leasetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Storage is where one test's records are, such as a directory, a table or a
// prefix of keys.
type Storage struct {
	// Open opens one more client of it, as another process would. It is called
	// up to 50 times in a test. What is to be closed, t.Cleanup can close.
	Open func() lease.Store

	// Garble makes the record of a worker unreadable: cuts it short, say. The
	// test is skipped where it is nil.
	Garble func(worker int)

	// Wipe removes all records, as an operator by mistake or a flush of the
	// engine would, and leaves what the store keeps elsewhere to know that. The test
	// is skipped if it is nil.
	Wipe func()
}

// Options are the settings of Run. The zero value, and nil, consist entirely of
// defaults.
type Options struct {
	// Window is that of the holders that crash or are cut off, which the tests
	// wait for. Give a longer one where a save takes more than a tenth of it.
	// 0: 500 ms.
	Window time.Duration
}

// Run runs every test as a subtest, in storage that fresh makes for it: empty,
// and shared with no other. It takes about ten seconds with the default window
// and a quick engine.
func Run(t *testing.T, fresh func(t *testing.T) Storage, opts *Options) {
	window := 500 * time.Millisecond
	if opts != nil && opts.Window > 0 {
		window = opts.Window
	}
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
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute+20*window)
			defer cancel()
			test.run(&suite{t, ctx, fresh(t), window})
		})
	}
}

// suite is what a test has at hand.
type suite struct {
	*testing.T
	ctx     context.Context // so that a store that hangs fails the test
	storage Storage
	window  time.Duration
}

// wants checks that err matches target.
func (s *suite) wants(err, target error, format string, args ...any) {
	s.Helper()
	if !errors.Is(err, target) {
		s.Fatalf("%s: the error is %v, not one that matches %q", fmt.Sprintf(format, args...), err, target)
	}
}

// save saves r, which has to succeed, and returns what Save does.
func (s *suite) save(store lease.Store, r lease.Record) lease.Record {
	s.Helper()
	saved, err := store.Save(s.ctx, r)
	if err != nil {
		s.Fatalf("saving version %d of worker %d: %v", r.Version, r.Worker, err)
	}
	return saved
}

// load returns what a client sees, its records by worker.
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

// holds checks that the storage has these records and no others, Renewed
// included.
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

// watched returns what Load returns for r where the engine itself watches the
// holders, and takes the one in the snapshot for alive, or for gone, though its
// Renewed says otherwise.
func watched(r lease.Record, snap lease.Snapshot) lease.Record {
	for _, got := range snap.Records {
		alive, gone := got.Renewed.Equal(snap.Now), got.Renewed.IsZero()
		if got.Worker == r.Worker && (alive && !r.Live(snap.Now) || gone && r.Live(snap.Now)) {
			r.Renewed = got.Renewed
		}
	}
	return r
}

// diff says in which fields two records differ. The same instant in another
// location is no difference.
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

// record makes one that is held, and not like that of another version.
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
		Window:  s.window,
	}
}

// together runs f n times at once, and returns when all have ended.
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
