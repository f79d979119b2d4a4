package leasetest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

// memory is a store with at most one fault.
type memory struct {
	fault string
	boot  time.Time
	s     *storage
	view  map[int]lease.Record // with "stale view"
	loads int
}

type storage struct {
	mu      sync.Mutex
	records map[int]lease.Record
	garbled map[int]bool
	history map[int][]lease.Holding
	wiped   bool
	checked int // with "check and write apart"
}

func (m *memory) is(fault string) bool { return m.fault == fault }

func (m *memory) now() time.Time {
	switch now := time.Now(); m.fault {
	case "clock in whole seconds":
		return now.Truncate(time.Second)
	case "clock that stands still":
		return m.boot
	case "another clock, of which it does not say so", "another clock, of which it says so":
		return now.Add(time.Hour)
	default:
		return now
	}
}

func (m *memory) Load(ctx context.Context) (lease.Snapshot, error) {
	return m.load(ctx, func(int) bool { return true })
}

func (m *memory) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	return m.load(ctx, func(w int) bool {
		switch m.fault {
		case "all workers for one":
			return true
		case "no worker for one":
			return false
		case "a prefix for one":
			return strings.HasPrefix(fmt.Sprint(w), fmt.Sprint(worker))
		}
		return w == worker
	})
}

func (m *memory) load(ctx context.Context, wanted func(worker int) bool) (lease.Snapshot, error) {
	if err := ctx.Err(); err != nil && !m.is("load that ignores the context") {
		return lease.Snapshot{}, err
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.s.wiped && !m.is("wiped is new") {
		return lease.Snapshot{}, lease.ErrWiped
	}
	if m.is("stale view") {
		if m.loads++; m.loads%2 == 1 { // each view serves two loads
			m.view = maps.Clone(m.s.records)
		}
		return lease.Snapshot{Records: slices.Collect(maps.Values(m.view)), Now: m.now()}, nil
	}
	snap := lease.Snapshot{Now: m.now(), OwnClock: m.is("another clock, of which it says so")}
	for w, r := range m.s.records {
		if !wanted(w) {
			continue
		}
		if m.s.garbled[w] {
			if m.is("unreadable taken for missing") {
				continue
			}
			return snap, fmt.Errorf("worker %d: %w", w, lease.ErrBadRecord)
		}
		if !m.is("memory shared with loads") {
			r.Bounds = slices.Clone(r.Bounds)
		}
		if m.is("a worker left out") && w == 1 {
			continue
		}
		snap.Records = append(snap.Records, r)
	}
	if m.is("Now of another clock than Renewed") {
		snap.Now = snap.Now.Add(time.Second)
	}
	if m.is("a record twice") && len(snap.Records) > 0 {
		snap.Records = append(snap.Records, snap.Records[0])
	}
	return snap, nil
}

func (m *memory) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	if err := ctx.Err(); err != nil && !m.is("save that ignores the context") {
		if m.is("done context, saved all the same") {
			_, _ = m.save(r, nil, time.Time{})
		}
		return r, err
	}
	if m.is("halves") {
		if by, ok := ctx.Deadline(); ok && time.Until(by) < time.Second {
			r.Bounds = make([]time.Time, 1)
		}
	}
	if m.is("check and write apart") {
		if !m.checkAlone(r) {
			return r, lease.ErrConflict
		}
	}
	return m.save(r, nil, time.Time{})
}

// checkAlone compares versions. If there is another client, it waits until that client has compared
// them too.
func (m *memory) checkAlone(r lease.Record) bool {
	m.s.mu.Lock()
	m.s.checked++
	mine, old := m.s.checked, m.s.records[r.Worker]
	m.s.mu.Unlock()
	if old.Version != r.Version-1 {
		return false
	}
	for range 200 {
		m.s.mu.Lock()
		others := m.s.checked > mine
		m.s.mu.Unlock()
		if others {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

func (m *memory) SaveEnding(ctx context.Context, r lease.Record, ended lease.Holding, forget time.Time) (lease.Record, error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if m.is("history apart from the record") {
		m.s.mu.Lock()
		m.keep(r.Worker, ended, forget)
		m.s.mu.Unlock()
		return m.save(r, nil, forget)
	}
	return m.save(r, &ended, forget)
}

// keep changes the history of a worker.
func (m *memory) keep(worker int, ended lease.Holding, forget time.Time) {
	kept := slices.Clone(m.s.history[worker])
	switch m.fault {
	case "no history":
		return
	case "history of one":
		kept = nil
	case "history of hundreds lost":
		kept = kept[max(0, len(kept)-100):]
	case "holdings in microseconds":
		ended.From, ended.To = ended.From.Truncate(time.Microsecond), ended.To.Truncate(time.Microsecond)
	case "holdings without their clock sequence":
		ended.ClockSeq = 0
	case "holdings without their owner":
		ended.Owner = ""
	}
	kept = slices.DeleteFunc(kept, func(h lease.Holding) bool {
		same := h.Token == ended.Token && h.ClockSeq == ended.ClockSeq && h.From.Equal(ended.From)
		if m.is("holdings told apart by their token") {
			same = h.Token == ended.Token
		}
		return same && !m.is("holdings that double")
	})
	kept = append(kept, ended)
	if !m.is("nothing is forgotten") {
		kept = slices.DeleteFunc(kept, func(h lease.Holding) bool {
			return h.To.Before(forget) || m.is("too much is forgotten") && h.To.Equal(forget)
		})
	}
	m.s.history[worker] = kept
}

func (m *memory) History(ctx context.Context, worker int) ([]lease.Holding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.is("one history for all workers") {
		return slices.Concat(slices.Collect(maps.Values(m.s.history))...), nil
	}
	return slices.Clone(m.s.history[worker]), nil
}

func (m *memory) save(r lease.Record, ended *lease.Holding, forget time.Time) (lease.Record, error) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.s.wiped && !m.is("wiped is new") {
		return r, lease.ErrWiped
	}
	old, ok := m.s.records[r.Worker]
	if m.s.garbled[r.Worker] {
		if m.is("unreadable taken for no record") && r.Version == 1 {
			ok, old = false, lease.Record{}
		} else {
			return r, lease.ErrBadRecord
		}
	}
	conflict := old.Version != r.Version-1
	switch m.fault {
	case "any first version":
		conflict = ok && conflict
	case "versions that skip":
		conflict = r.Version <= old.Version
	case "versions that repeat":
		conflict = conflict && r.Version != old.Version
	case "last save wins":
		conflict = conflict && r.Version <= 1
	case "token, no version":
		conflict = conflict && r.Token != old.Token
	case "one version for all workers":
		for _, other := range m.s.records {
			conflict = conflict || r.Version < other.Version
		}
	case "check and write apart":
		conflict = false
	case "silent conflicts":
		if conflict {
			return r, nil
		}
	}
	if conflict {
		if m.is("conflicts with another error") {
			return r, errors.New("serialization failure")
		}
		if m.is("conflicts that write a field") && ok {
			old.Bounds = slices.Clone(r.Bounds)
			m.s.records[r.Worker] = old
		}
		return r, lease.ErrConflict
	}
	if !m.is("the client's Renewed") {
		r.Renewed = m.now().UTC().Round(0)
	}
	stored := r
	if !m.is("memory shared with saves") {
		stored.Bounds = slices.Clone(r.Bounds)
	}
	switch m.fault {
	case "bounds in microseconds":
		for i, b := range stored.Bounds {
			stored.Bounds[i] = b.Truncate(time.Microsecond)
		}
	case "bounds in Unix nanoseconds":
		for i, b := range stored.Bounds {
			stored.Bounds[i] = time.Unix(0, b.UnixNano())
		}
	case "only one bound":
		stored.Bounds = stored.Bounds[:1]
	case "only the current bound":
		for i := range stored.Bounds {
			if i != stored.ClockSeq {
				stored.Bounds[i] = time.Time{}
			}
		}
	case "no bounds":
		stored.Bounds = make([]time.Time, len(stored.Bounds))
	case "windows in floats":
		stored.Window = time.Duration(float64(stored.Window))
	case "owners that are trimmed":
		stored.Owner = strings.TrimSpace(stored.Owner)
	case "owners that are cut":
		stored.Owner = stored.Owner[:min(len(stored.Owner), 255)]
	case "owners in ASCII":
		stored.Owner = strings.Map(func(c rune) rune { return min(c, 127) }, stored.Owner)
	case "spent is free":
		if stored.State == lease.Spent {
			stored.State = lease.Free
		}
	case "no owner":
		stored.Owner = ""
	case "owners in upper case":
		stored.Owner = strings.ToUpper(stored.Owner)
	case "no state":
		stored.State = lease.Held
	case "layout without its order":
		stored.Layout.WorkerLast = false
	case "workers of 16 bits":
		stored.Worker &= 1<<16 - 1
	case "first owner stays":
		if ok {
			stored.Owner = old.Owner
		}
	case "Save returns another Renewed":
		r.Renewed = r.Renewed.Add(time.Millisecond)
	}
	m.s.records[stored.Worker] = stored
	if ended != nil {
		m.keep(r.Worker, *ended, forget)
	}
	return r, nil
}

func newStorage() *storage {
	return &storage{records: map[int]lease.Record{}, garbled: map[int]bool{}, history: map[int][]lease.Holding{}}
}

func fresh(fault string) func(*testing.T) leasetest.Storage {
	return func(*testing.T) leasetest.Storage {
		s := newStorage()
		boot := time.Now()
		return leasetest.Storage{
			Open: func() lease.Store {
				if fault == "clients that do not meet" {
					s := newStorage()
					return &memory{fault: fault, s: s}
				}
				return &memory{fault: fault, boot: boot, s: s}
			},
			Garble: func(worker int) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.garbled[worker] = true
			},
			Wipe: func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.wiped = true
				clear(s.records)
				clear(s.history)
			},
		}
	}
}

func TestStoreInMemoryPassesRun(t *testing.T) {
	leasetest.Run(t, fresh(""), &leasetest.Options{FakeTime: !depth.Full()})
}

func TestStoreWithItsOwnClockPassesRun(t *testing.T) {
	leasetest.Run(t, fresh("another clock, of which it says so"), &leasetest.Options{FakeTime: true})
}

const faultVariable = "LEASETEST_FAULT"

// TestFaulty runs the suite on a faulty store. TestRunFindsEachFault starts it in a new process.
func TestFaulty(t *testing.T) {
	fault := os.Getenv(faultVariable)
	if fault == "" {
		t.Skip("it needs a fault, which TestRunFindsEachFault sets")
	}
	leasetest.Run(t, fresh(fault), &leasetest.Options{FakeTime: true})
}

// Each test of the suite finds the faults that it is about, and passes if there is no fault.
func TestRunFindsEachFault(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		test   string
		faults []string
	}{
		{"EmptyStorageHasNoRecords", []string{"no fault", "another clock, of which it does not say so"}},
		{"FirstSaveHasVersion1", []string{"no fault", "any first version", "conflicts with another error", "silent conflicts"}},
		{"EachSaveHasTheNextVersion", []string{"no fault", "versions that skip", "versions that repeat", "token, no version", "conflicts that write a field", "clients that do not meet", "a record twice"}},
		{"RecordsComeBackAsTheyWere", []string{"no fault", "bounds in microseconds", "bounds in Unix nanoseconds", "only one bound", "windows in floats", "owners that are trimmed", "owners that are cut", "owners in ASCII", "layout without its order", "workers of 16 bits", "no state", "first owner stays"}},
		{"RecordsAreTheCallersOwn", []string{"no fault", "memory shared with saves", "memory shared with loads"}},
		{"RenewedIsTheStoresTime", []string{"no fault", "the client's Renewed", "clock in whole seconds", "clock that stands still", "Now of another clock than Renewed", "Save returns another Renewed"}},
		{"LoadsSeeWhatWasSaved", []string{"no fault", "stale view", "a worker left out"}},
		{"OneOfManySavesWins", []string{"no fault", "check and write apart"}},
		{"WorkersDoNotDisturbOneAnother", []string{"no fault", "one version for all workers"}},
		{"DelayedRequestsChangeNothing", []string{"no fault", "last save wins", "versions that repeat"}},
		{"DoneContextChangesNothing", []string{"no fault", "load that ignores the context", "save that ignores the context", "done context, saved all the same"}},
		{"LoadWorkerReturnsOneRecord", []string{"no fault", "all workers for one", "no worker for one", "a prefix for one"}},
		{"SaveThatRanOutOfTimeIsWhole", []string{"no fault", "halves"}},
		{"UnreadableRecordFailsAll", []string{"no fault", "unreadable taken for missing", "unreadable taken for no record"}},
		{"WipedStoreIsNotNew", []string{"no fault", "wiped is new"}},
		{"HistoryKeepsWhatIsReplaced", []string{"no fault", "no history", "history of one", "history of hundreds lost", "holdings that double", "holdings told apart by their token", "nothing is forgotten", "too much is forgotten", "one history for all workers"}},
		{"HoldingsComeBackAsTheyWere", []string{"no fault", "holdings in microseconds", "holdings without their clock sequence", "holdings without their owner"}},
		{"FailedSavesKeepNothing", []string{"no fault", "history apart from the record"}},
		{"EachIDNamesItsIssuer", []string{"no fault", "no history", "history of one"}},
		{"OldHoldersAreForgotten", []string{"no fault", "nothing is forgotten", "no history"}},
		{"ManyAtOnceGetDifferentWorkerIDs", []string{"no fault", "check and write apart"}},
		{"FullRangeSaysWhoHoldsWhat", []string{"no fault", "owners in upper case"}},
		{"ReleaseFreesAtOnce", []string{"no fault", "no state", "no bounds"}},
		{"OwnersGetTheirWorkerIDBack", []string{"no fault", "owners in ASCII"}},
		{"KeptWorkerIDsGoToNoOtherOwner", []string{"no fault", "no owner"}},
		{"WorkerIDsUsedOnce", []string{"no fault", "spent is free"}},
		{"AnotherLayoutIsRefused", []string{"no fault", "layout without its order"}},
		{"CrashedHoldersWorkerIDComesFree", []string{"no fault", "no bounds"}},
		{"HolderThatWasCutOffIsFenced", []string{"no fault", "no bounds"}},
		{"SuccessorsNeverRepeatAnID", []string{"no fault", "no bounds"}},
		{"SuccessorsWithTheClockBehind", []string{"no fault", "only the current bound"}},
		{"CompetitorsNeverRepeatAnID", []string{"no fault", "no bounds"}},
	} {
		t.Run(c.test, func(t *testing.T) {
			t.Parallel()
			for _, fault := range c.faults {
				run(t, self, fault, c.test)
			}
		})
	}
}

func run(t *testing.T, self, fault, test string) {
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestFaulty$/^"+test+"$", "-test.timeout", "1m")
	cmd.Env = append(os.Environ(), faultVariable+"="+fault, "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	failed := strings.Contains(string(out), "--- FAIL: TestFaulty/"+test)
	if want := fault != "no fault"; failed != want || (err != nil) != want {
		t.Errorf("%s with the fault %q: failed is %v, %v\n%s", test, fault, failed, err, out)
	}
}
