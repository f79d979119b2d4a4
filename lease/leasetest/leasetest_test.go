//go:build go1.25

package leasetest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

// memory is a store in a map, with at most one fault.
type memory struct {
	fault string
	s     *storage
	view  map[string]lease.Entry // with "stale view"
	reads int
}

type storage struct {
	mu       sync.Mutex
	entries  map[string]lease.Entry
	garbled  map[string]bool
	deleted  map[string]bool
	versions int
	boot     time.Time
}

func newStorage() *storage {
	return &storage{entries: map[string]lease.Entry{}, garbled: map[string]bool{}, deleted: map[string]bool{}, boot: time.Now()}
}

func (m *memory) is(fault string) bool { return m.fault == fault }

func (m *memory) clock() time.Time {
	switch now := time.Now(); m.fault {
	case "no time":
		return time.Time{}
	case "clock in whole seconds":
		return now.Truncate(time.Second)
	case "clock that stands still":
		return m.s.boot
	case "another clock than Now's":
		return now.Add(time.Second)
	case "clock that runs backward":
		return m.s.boot.Add(m.s.boot.Sub(now) * 10)
	default:
		return now
	}
}

func (m *memory) Now(ctx context.Context) (time.Time, error) {
	if m.is("Now ignores the context") {
		return time.Now(), nil
	}
	if m.is("Now stands still") {
		return m.s.boot, ctx.Err()
	}
	return time.Now(), ctx.Err()
}

// unreadable is the prefix of a garbled entry's version. The rest is the version before.
const unreadable = "unreadable-"

var errGarbled = fmt.Errorf("%w: the entry cannot be read", lease.ErrBadRecord)

// read returns the entries that match.
func (m *memory) read(match func(key string) bool) ([]lease.Entry, error) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	entries := m.s.entries
	if m.is("stale view") {
		if m.reads++; m.reads%3 == 1 { // a view is for three reads
			m.view = maps.Clone(m.s.entries)
		}
		entries = m.view
	}
	var found []lease.Entry
	for key, e := range entries {
		switch {
		case !match(key):
			continue
		case m.s.garbled[key] && m.is("garbled hides the others"):
			return nil, errGarbled
		case m.s.garbled[key] && m.is("garbled is none"):
			continue
		case m.s.garbled[key] && !m.is("garbled is an entry"):
			found = append(found, lease.Entry{Key: key, Version: unreadable + e.Version})
			continue
		}
		if !m.is("memory shared with reads") {
			e.Value = slices.Clone(e.Value)
		}
		if m.is("reading is storing") {
			e.Time = time.Now()
		}
		found = append(found, e)
	}
	return found, nil
}

func (m *memory) Get(ctx context.Context, key string) (lease.Entry, error) {
	if m.is("always away") {
		return lease.Entry{}, lease.ErrAway
	}
	if err := ctx.Err(); err != nil && !m.is("Get ignores the context") {
		return lease.Entry{}, err
	}
	found, err := m.read(func(k string) bool {
		return k == key || m.is("numbers are compared") && number(k) && number(key) && value(k) == value(key)
	})
	if err != nil || len(found) == 0 {
		return lease.Entry{}, err
	}
	e := found[0]
	if e.Value != nil {
		return e, nil
	}
	switch m.fault {
	case "garbled is another error":
		return e, errors.New("the entry cannot be read")
	case "garbled has no version":
		return lease.Entry{Key: key}, errGarbled
	case "garbled has another version in a List":
		e.Version += "-got"
	case "garbled has another version each time":
		m.reads++
		e.Version += strconv.Itoa(m.reads)
	}
	return e, errGarbled
}

func number(s string) bool   { _, err := strconv.ParseFloat(s, 64); return err == nil }
func value(s string) float64 { f, _ := strconv.ParseFloat(s, 64); return f }

func (m *memory) List(ctx context.Context, prefix string) ([]lease.Entry, error) {
	if err := ctx.Err(); err != nil && !m.is("List ignores the context") {
		return nil, err
	}
	found, err := m.read(func(key string) bool {
		switch m.fault {
		case "a prefix is a folder":
			return prefix == "" || strings.HasPrefix(key, strings.TrimSuffix(prefix, "/")+"/")
		case "a dot matches anything":
			return len(key) >= len(prefix) && strings.HasPrefix(strings.ReplaceAll(key, "-", "."), strings.ReplaceAll(prefix, "-", "."))
		case "a prefix is a part":
			return strings.Contains(key, prefix)
		}
		return strings.HasPrefix(key, prefix)
	})
	switch {
	case m.is("one page") && len(found) > 500:
		return found[:500], err
	case m.is("an entry twice") && len(found) > 0:
		return append(found, found[0]), err
	case m.is("an entry left out while others change") && len(found) == 3 && time.Now().UnixMilli()%5 == 0:
		return found[:2], err
	case m.is("at most 4 MiB"):
		size := 0
		for _, e := range found {
			size += len(e.Value)
		}
		if size > 4<<20 {
			return nil, errors.New("the message is too large")
		}
	}
	return found, err
}

func (m *memory) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	if err := ctx.Err(); err != nil && !m.is("Put ignores the context") {
		if m.is("done context, stored later") {
			go func() { time.Sleep(10 * time.Millisecond); _, _ = m.put(key, old, value) }()
		}
		return lease.Entry{}, err
	}
	by, limited := ctx.Deadline()
	hurried := limited && time.Until(by) < time.Second
	switch {
	case hurried && m.is("halves"):
		value = value[:len(value)/2]
	case hurried && m.is("late Puts win"):
		go func() {
			time.Sleep(50 * time.Millisecond)
			_, _ = m.put(key, m.version(key), value)
		}()
		return lease.Entry{}, context.DeadlineExceeded
	case hurried && m.is("Puts that are late arrive twice"):
		_, _ = m.put(key, old, value)
		go func() { time.Sleep(time.Millisecond); _, _ = m.put(key, m.version(key), []byte("twice")) }()
		return lease.Entry{}, context.DeadlineExceeded
	case m.is("check and write apart"):
		if m.version(key) != old {
			return lease.Entry{}, lease.ErrConflict
		}
		time.Sleep(time.Millisecond)
		old = m.version(key)
	}
	return m.put(key, old, value)
}

func (m *memory) version(key string) string {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	return m.s.entries[key].Version
}

// conflict reports whether an entry's version is not old. s.mu must be held.
func (m *memory) conflict(key, old string) bool {
	stored := m.s.entries[key].Version
	if m.s.garbled[key] && m.fault != "garbled is an entry" {
		if m.is("garbled keeps its version") && stored == old || m.is("garbled has any version") && old != "" {
			return false
		}
		stored = unreadable + stored
	}
	switch m.fault {
	case "any version of no entry":
		return stored != "" && stored != old
	case "no version of any entry":
		return old != "" && stored != old
	case "versions as prefixes":
		return !strings.HasPrefix(stored, old) || old == "" && stored != ""
	case "versions as longer texts":
		return !strings.HasPrefix(old, stored) || stored == "" && old != ""
	case "a version of any entry":
		for _, e := range m.s.entries {
			if e.Version == old {
				return false
			}
		}
	case "last Put wins":
		return false
	case "one version for all":
		for _, e := range m.s.entries {
			if old != "" && e.Version > old && len(e.Version) >= len(old) {
				return true
			}
		}
	}
	return stored != old
}

func (m *memory) put(key, old string, value []byte) (lease.Entry, error) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.s.garbled[key] && (m.is("garbled is not replaced") || m.is("garbled is no conflict") && m.conflict(key, old)) {
		return lease.Entry{}, errGarbled
	}
	before := m.s.entries[key]
	if m.s.garbled[key] && m.is("garbled is none") {
		before = lease.Entry{}
		delete(m.s.entries, key)
	}
	if m.conflict(key, old) || m.is("no second creation") && old == "" && m.s.deleted[key] {
		switch m.fault {
		case "conflicts with another error":
			return lease.Entry{}, errors.New("serialization failure")
		case "silent conflicts":
			return lease.Entry{Key: key, Version: "silent", Value: value}, nil
		case "conflicts that store":
			before.Value = slices.Clone(value)
			m.s.entries[key] = before
		}
		return lease.Entry{}, lease.ErrConflict
	}
	m.s.versions++
	e := lease.Entry{Key: key, Version: fmt.Sprint("v", m.s.versions), Value: slices.Clone(value), Time: m.clock()}
	switch m.fault {
	case "versions count from 1":
		n, _ := strconv.Atoi(strings.TrimPrefix(before.Version, "v"))
		e.Version = fmt.Sprint("v", n+1)
	case "versions are sums of the value":
		e.Version = "sum-" + strconv.Itoa(len(value)) + string(value[:min(len(value), 1)])
	case "memory shared with Put's argument":
		e.Value = value
	case "values are trimmed":
		e.Value = []byte(strings.TrimSpace(string(value)))
	case "values are cut":
		e.Value = e.Value[:min(len(value), 65535)]
	case "values of three bytes a character":
		e.Value = []byte(strings.Map(func(c rune) rune { return min(c, 0xffff) }, string(value)))
	case "carriage returns are dropped":
		e.Value = []byte(strings.ReplaceAll(string(value), "\r\n", "\n"))
	case "control characters are dropped":
		e.Value = []byte(strings.Map(func(c rune) rune {
			if c < 32 && c != '\n' && c != '\t' && c != '\r' {
				return -1
			}
			return c
		}, string(value)))
	case "an empty value is no entry":
		if len(value) == 0 {
			return e, nil
		}
	case "keys are cut":
		e.Key = key[:min(len(key), 99)]
	case "dots are dashes":
		e.Key = strings.ReplaceAll(key, ".", "-")
	}
	m.s.entries[e.Key] = e
	delete(m.s.garbled, e.Key)
	returned := e
	returned.Value = slices.Clone(e.Value)
	switch m.fault {
	case "memory shared with Put's result":
		returned.Value = e.Value
	case "Put returns another time":
		returned.Time = e.Time.Add(time.Millisecond)
	case "Put returns no value":
		returned.Value = nil
	}
	return returned, nil
}

func (m *memory) Delete(ctx context.Context, key, old string) error {
	if err := ctx.Err(); err != nil && !m.is("Delete ignores the context") {
		return err
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.is("Delete of nothing succeeds") && m.s.entries[key].Version == "" {
		return nil
	}
	if m.conflict(key, old) && !m.is("Delete ignores the version") || m.s.entries[key].Version == "" {
		return lease.ErrConflict
	}
	if m.s.garbled[key] && m.is("garbled is not removed") {
		return errGarbled
	}
	delete(m.s.garbled, key)
	m.s.deleted[key] = true
	if !m.is("Delete does nothing") {
		delete(m.s.entries, key)
	}
	return nil
}

func fresh(fault string) func(*testing.T) leasetest.Storage {
	return func(*testing.T) leasetest.Storage {
		s := newStorage()
		return leasetest.Storage{
			Open: func() lease.Store {
				if fault == "clients that do not meet" {
					return &memory{fault: fault, s: newStorage()}
				}
				return &memory{fault: fault, s: s}
			},
			Wipe: func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				clear(s.entries)
				clear(s.garbled)
				if fault == "versions begin again after a loss" {
					s.versions = 0
				}
			},
			Garble: func(key string) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.garbled[key] = true
			},
		}
	}
}

func TestMemoryPassesRun(t *testing.T) {
	for name, clock := range map[string]snowflake.Clock{"without a clock": nil, "with a clock": snowflake.ClockFunc(time.Now)} {
		t.Run(name, func(t *testing.T) {
			leasetest.Run(t, inMemory(clock), &leasetest.Options{FakeTime: true, Parallel: true})
		})
	}
}

func inMemory(clock snowflake.Clock) func(*testing.T) leasetest.Storage {
	return func(*testing.T) leasetest.Storage {
		m := &leasetest.Memory{Clock: clock}
		return leasetest.Storage{Open: func() lease.Store { return m }, Wipe: m.Wipe}
	}
}

// A request for which Before returns an error changes nothing.
func TestMemoryThatIsAway(t *testing.T) {
	var asked []string
	away := errors.New("the store is away")
	m := &leasetest.Memory{Clock: snowflake.ClockFunc(time.Now)}
	e, err := m.Put(t.Context(), "a", "", []byte("1"))
	require.NoError(t, err)
	m.Before = func(_ context.Context, request, key string) error {
		asked = append(asked, request+" "+key)
		return away
	}
	_, errGet := m.Get(t.Context(), "a")
	_, errList := m.List(t.Context(), "b")
	_, errPut := m.Put(t.Context(), "a", e.Version, []byte("2"))
	errDelete := m.Delete(t.Context(), "a", e.Version)
	_, errNow := m.Now(t.Context())
	for _, err := range []error{errGet, errList, errPut, errDelete, errNow} {
		require.Equal(t, away, err)
	}
	require.Equal(t, []string{"Get a", "List b", "Put a", "Delete a", "Now "}, asked)
	m.Before = nil
	is, err := m.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, e, is)
}

func ExampleMemory() {
	ctx, away := context.Background(), false
	store := &leasetest.Memory{Before: func(context.Context, string, string) error {
		if away {
			return errors.New("the store is away")
		}
		return nil
	}}
	l, err := lease.Acquire(ctx, store, &lease.Options{NewStore: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	away = true
	_, err = gen.NextID() // until the window ends
	fmt.Println(err, l.Ready())
	away = false
	fmt.Println(l.Release(ctx))
	// Output:
	// <nil> <nil>
	// <nil>
}

// The store of the tests below, without a fault.
func TestStoreWithoutAFaultPassesRun(t *testing.T) {
	leasetest.Run(t, fresh(""), &leasetest.Options{FakeTime: true, Parallel: true})
}

// leaderless is a client whose request fails once with ErrAway. A Put may have stored the value.
type leaderless struct {
	lease.Store
	calls *atomic.Int64 // until then
}

func (c leaderless) Get(ctx context.Context, key string) (lease.Entry, error) {
	if c.calls.Add(-1) == 0 {
		return lease.Entry{}, lease.ErrAway
	}
	return c.Store.Get(ctx, key)
}

func (c leaderless) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	e, err := c.Store.Put(ctx, key, old, value)
	if c.calls.Add(-1) == 0 {
		return lease.Entry{}, lease.ErrAway
	}
	return e, err
}

func TestStoreWithAShortOutagePassesRun(t *testing.T) {
	tries := map[string]int64{}
	leasetest.Run(t, func(t *testing.T) leasetest.Storage {
		storage, calls := inMemory(nil)(t), new(atomic.Int64)
		tries[t.Name()]++
		if n := tries[t.Name()]; n < 5 {
			calls.Store(2 * n)
		}
		open := storage.Open
		storage.Open = func() lease.Store { return leaderless{open(), calls} }
		return storage
	}, &leasetest.Options{FakeTime: true})
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

// Each test of the suite finds the faults that it is for.
func TestRunFindsEachFault(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, c := range []struct {
		test   string
		faults []string
	}{
		{"PutAndDeleteCompareTheVersion", []string{
			"always away", "any version of no entry", "no version of any entry", "versions as prefixes",
			"versions as longer texts", "a version of any entry", "last Put wins",
			"conflicts with another error", "silent conflicts", "conflicts that store",
			"Delete ignores the version", "Delete does nothing", "Delete of nothing succeeds",
			"clients that do not meet", "Put returns no value", "Put returns another time", "an entry twice",
		}},
		{"VersionsNeverRepeat", []string{"versions count from 1", "versions are sums of the value"}},
		{"EntriesAreReturnedUnchanged", []string{
			"values are trimmed", "values are cut", "values of three bytes a character",
			"carriage returns are dropped", "control characters are dropped", "an empty value is no entry",
		}},
		{"KeysAreTakenLiterally", []string{"keys are cut", "dots are dashes", "numbers are compared"}},
		{"ListReturnsAPrefix", []string{"a prefix is a folder", "a dot matches anything", "a prefix is a part"}},
		{"ListReturnsAll", []string{"one page", "at most 4 MiB"}},
		{"EntriesShareNoMemory", []string{
			"memory shared with Put's argument", "memory shared with Put's result", "memory shared with reads",
		}},
		{"ReadersSeeWhatWasStored", []string{"stale view", "an entry left out while others change", "one version for all"}},
		{"OneOfManyWins", []string{"check and write apart"}},
		{"DoneContextChangesNothing", []string{
			"Get ignores the context", "List ignores the context", "Put ignores the context",
			"Delete ignores the context", "Now ignores the context", "done context, stored later",
		}},
		{"LatePutsChangeNothing", []string{"halves", "late Puts win", "Puts that are late arrive twice"}},
		{"TimesAreTheEnginesTimes", []string{
			"no time", "clock in whole seconds", "clock that stands still", "another clock than Now's",
			"clock that runs backward", "Now stands still", "reading is storing",
		}},
		{"VersionsDoNotRepeatAfterWipe", []string{"versions begin again after a loss"}},
		{"UnreadableEntryIsAnError", []string{
			"garbled is none", "garbled is an entry", "garbled hides the others", "garbled is another error",
			"garbled has no version", "garbled has another version in a List",
			"garbled has another version each time", "garbled keeps its version", "garbled has any version",
			"garbled is no conflict", "garbled is not replaced", "garbled is not removed",
		}},
		{"LeasesChangeHands", []string{"clients that do not meet"}},
		{"WorkerIDOfACrashedHolderIsReused", []string{"clients that do not meet"}},
		{"LostRecordIsPutBack", []string{"no second creation"}},
		{"UnreadableEntriesAreReplaced", []string{"garbled has no version", "garbled is not replaced"}},
	} {
		t.Run(c.test, func(t *testing.T) {
			t.Parallel()
			for _, fault := range c.faults {
				cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestFaulty$/^"+c.test+"$", "-test.timeout", "1m")
				cmd.Env = append(os.Environ(), faultVariable+"="+fault, "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
				out, err := cmd.CombinedOutput()
				require.Error(t, err, "it does not find the fault %q: %v\n%s", fault, err, out)
				assert.Contains(t, string(out), "--- FAIL: TestFaulty/"+c.test, "it does not find the fault %q: %v\n%s", fault, err, out)
			}
		})
	}
}
