package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// compare: Put and Delete change an entry only if old is its version. A new storage is empty.
func (s *suite) compare() {
	a, b := s.storage.Open(), s.storage.Open()
	s.hasNo(a, "a")
	s.has(a)
	s.wants(a.Delete(s.ctx, "a", ""), lease.ErrConflict, "Delete with no version, although there is no entry")
	s.wants(a.Delete(s.ctx, "a", "1"), lease.ErrConflict, "Delete, although there is no entry")
	s.has(b)
	other := s.put(a, "other", "", "another entry")
	refused := func(what, old string, want ...lease.Entry) {
		s.Helper()
		for _, store := range []lease.Store{a, b} {
			_, err := store.Put(s.ctx, "a", old, []byte("late"))
			s.wants(err, lease.ErrConflict, "Put with %s", what)
			s.wants(store.Delete(s.ctx, "a", old), lease.ErrConflict, "Delete with %s", what)
		}
		s.has(a, append(want, other)...)
		s.has(b, append(want, other)...)
	}
	refused("a version, although there is no entry", "1")
	refused("another entry's version", other.Version)

	first := s.put(a, "a", "", "first")
	refused("no version, although there is an entry", "", first)
	refused("a version that never was", "no-version", first)
	refused("another entry's version", other.Version, first)
	refused("a part of the version", first.Version[:len(first.Version)-1], first)
	refused("more than the version", first.Version+"0", first)

	second := s.put(b, "a", first.Version, "second")
	refused("the version before", first.Version, second)

	s.delete(a, "a", second.Version)
	s.hasNo(b, "a")
	refused("the version of a deleted entry", second.Version)

	again := s.put(b, "a", "", "second")
	refused("the version before the deletion", second.Version, again)
	s.delete(b, "a", again.Version)
	s.has(a, other)
}

// versions: no version repeats, even if the value does.
func (s *suite) versions() {
	stores := s.open(2)
	seen := map[string]bool{}
	for range 10 {
		version := ""
		for i := range 5 {
			version = s.put(stores[i%2], "a", version, "the same value").Version
			if seen[version] {
				s.Fatalf("the version %q repeats", version)
			}
			seen[version] = true
		}
		s.delete(stores[0], "a", version)
	}
	e := s.put(stores[1], "a", "", "the same value")
	for version := range seen {
		_, err := stores[0].Put(s.ctx, "a", version, []byte("late"))
		s.wants(err, lease.ErrConflict, "Put with an earlier version")
	}
	s.has(stores[0], e)
}

// values: Get and List return values unchanged, whether Put creates or replaces the entry.
func (s *suite) values() {
	const most = 64 << 10
	a, b := s.storage.Open(), s.storage.Open()
	var control strings.Builder
	for c := rune(1); c < 256; c++ {
		control.WriteRune(c)
	}
	for i, value := range []string{
		"", " ", "a", "0", "null", "\n", "\r\n", " spaces around ", "a tab\t", "trailing lines\n\n\r\n",
		`{"json": "\u00e9", "n": 9223372036854775807}`, `'; "quoted" \' \\ %s $1 ? :a {{.}} <&>`,
		"e\u0301 is not \u00e9", "\ufeffmark", "\ufffd\uffff", "漢字 \U0001F600\U0010FFFF", control.String(),
		strings.Repeat("a", most), strings.Repeat("\n", most), strings.Repeat("\"", most), strings.Repeat("\U0001F600", most/4),
	} {
		key := fmt.Sprintf("value/%d", i)
		e := s.put(a, key, "", value)
		s.same(b, e)
		e = s.put(b, key, e.Version, "another value")
		s.same(b, s.put(a, key, e.Version, value))
	}
}

// same checks that Get and List return e.
func (s *suite) same(store lease.Store, e lease.Entry) {
	s.Helper()
	if got := s.get(store, e.Key); !equal(got, e) {
		s.Fatalf("Get returns %s, not %s", show(got), show(e))
	}
	for _, got := range s.list(store, e.Key) {
		if got.Key == e.Key && equal(got, e) {
			return
		}
	}
	s.Fatalf("List does not return %s", show(e))
}

// keys: similar keys, which an engine might confuse, are different.
func (s *suite) keys() {
	a, b := s.storage.Open(), s.storage.Open()
	var want []lease.Entry
	for _, key := range []string{
		"0", "00", "10", "1e1", "0x0", "a", "b", "aa", "a.b", "a-b", "ab", "a1", "con", "nul", "null", "tmp", "lock", "a.tmp", "a.lock",
		"d/a", "d/a.b", "d/a-b", "d/e/a", "d/e-a", "d/0/1/2/3/4/5/6/7/8/9/z", "d.e/a", "w/1", "w/10", "w/01", "w-1", "w.1",
		strings.Repeat("k", 100), strings.Repeat("k", 99), strings.Repeat("k/", 49) + "zz", strings.Repeat("9-", 49) + "99",
	} {
		want = append(want, s.put(a, key, "", "the value of "+key))
	}
	s.has(b, want...)
	for i, e := range want {
		want[i] = s.put(b, e.Key, e.Version, string(e.Value)+" again")
	}
	s.has(a, want...)
	for _, e := range want {
		s.delete(a, e.Key, e.Version)
	}
	s.has(a)
}

func (s *suite) prefixes() {
	store := s.storage.Open()
	// The keys are sorted, as the entries that list returns.
	keys := []string{"v/1", "v/10", "v/10.5", "v/2", "v/a/b", "va", "w", "w-1", "w.1", "x/1/1"}
	for _, key := range keys {
		s.put(store, key, "", key)
	}
	for _, prefix := range []string{
		"", "v", "v/", "v/1", "v/10", "v/10.", "v/10.5", "v/10.5.", "v/a", "v/a/", "w", "w-", "w.", "x/1/", "x/1/1",
		"y", "y/", "1", "/", ".",
	} {
		want := []string{}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		got := s.list(s.storage.Open(), prefix)
		if !slices.EqualFunc(got, want, func(e lease.Entry, key string) bool { return e.Key == key && string(e.Value) == key }) {
			s.Fatalf("List(%q) returns %s, not %q", prefix, show(got...), want)
		}
	}
}

// all: List returns all of many and of large entries.
func (s *suite) all() {
	const small, large, writers = 450, 66, 16 // 4.1 MiB
	stores := s.open(writers)
	value := strings.Repeat("v", 64<<10)
	together(writers, func(i int) {
		for n := i; n < small+large; n += writers {
			v := strconv.Itoa(n)
			if n >= small {
				v += value[len(v):]
			}
			if _, err := stores[i].Put(s.ctx, fmt.Sprintf("n/%d", n), "", []byte(v)); err != nil {
				s.Errorf("putting entry %d: %v", n, err)
				return
			}
		}
	})
	if s.Failed() {
		return
	}
	entries := s.list(stores[0], "n/")
	if len(entries) != small+large {
		s.Fatalf("List returns %d entries of %d", len(entries), small+large)
	}
	for _, e := range entries {
		if n := strings.TrimPrefix(e.Key, "n/"); !strings.HasPrefix(string(e.Value), n) || e.Version == "" {
			s.Fatalf("List returns %s", show(e))
		}
	}
}

// noAliases: a caller may overwrite arguments and results.
func (s *suite) noAliases() {
	store := s.storage.Open()
	value := []byte("value")
	e, err := store.Put(s.ctx, "a", "", value)
	if err != nil {
		s.Fatalf("putting: %v", err)
	}
	unchanged := func(after string) {
		s.Helper()
		if got := s.get(store, "a"); string(got.Value) != "value" {
			s.Fatalf("%s the stored value is %q", after, got.Value)
		}
	}
	scribble := func(b []byte) {
		for i := range b {
			b[i] = 'X'
		}
	}
	scribble(value)
	unchanged("after the caller has overwritten the value that it put")
	scribble(e.Value)
	unchanged("after the caller has overwritten the value that Put returned")
	scribble(s.get(store, "a").Value)
	unchanged("after the caller has overwritten the value that Get returned")
	scribble(s.list(store, "a")[0].Value)
	unchanged("after the caller has overwritten the value that List returned")
}

// readersKeepUp: while entries change, readers get all entries, each at least as new as the last
// one stored before the request.
func (s *suite) readersKeepUp() {
	const keys, rounds, readers = 3, 25, 3
	stores := s.open(keys + readers)
	var version [keys]string
	for k := range keys {
		version[k] = s.put(stores[k], fmt.Sprint("k/", k), "", "0").Version
	}
	var stored [keys]atomic.Int64 // the last value of each key
	var writing atomic.Int32
	writing.Store(keys)
	write := func(k int) {
		defer writing.Add(-1)
		for n := range int64(rounds) {
			e, err := stores[k].Put(s.ctx, fmt.Sprint("k/", k), version[k], []byte(strconv.FormatInt(n+1, 10)))
			if err != nil {
				s.Errorf("the only writer of an entry: %v", err)
				return
			}
			version[k] = e.Version
			stored[k].Store(n + 1)
			time.Sleep(time.Millisecond)
		}
	}
	check := func(e lease.Entry, least int64) {
		if n, err := strconv.ParseInt(string(e.Value), 10, 64); err != nil || n < least {
			s.Errorf("a reader sees %s, after value %d was stored", show(e), least)
		}
	}
	together(keys+readers, func(i int) {
		if i < keys {
			write(i)
			return
		}
		for more := true; more; time.Sleep(time.Millisecond) {
			more = writing.Load() > 0 // otherwise this round is the last, after all writes
			var least [keys]int64
			for k := range keys {
				least[k] = stored[k].Load()
			}
			entries, err := stores[i].List(s.ctx, "k/")
			if err != nil || len(entries) != keys {
				s.Errorf("List returns %d entries of %d while they change: %v", len(entries), keys, err)
				return
			}
			for _, e := range entries {
				check(e, least[e.Key[len(e.Key)-1]-'0'])
			}
			k := i % keys
			low := stored[k].Load()
			e, err := stores[i].Get(s.ctx, fmt.Sprint("k/", k))
			if err != nil {
				s.Errorf("getting while it changes: %v", err)
				return
			}
			check(e, low)
		}
	})
}

// oneWins: of 50 concurrent writers with the same old version exactly one succeeds, whether they
// create, replace or delete the entry.
func (s *suite) oneWins() {
	const writers, clients = 50, 10
	stores := s.open(clients)
	for round := range 4 {
		old := s.get(stores[0], "a").Version
		var won [writers]lease.Entry
		var errs [writers]error
		together(writers, func(i int) {
			store := stores[i%clients]
			if round > 1 && i%10 == 0 {
				errs[i] = store.Delete(s.ctx, "a", old)
				return
			}
			won[i], errs[i] = store.Put(s.ctx, "a", old, fmt.Appendf(nil, "writer %d", i))
		})
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				s.Fatalf("writer %d and writer %d both replaced version %q", winner, i, old)
			case err == nil:
				winner = i
			default:
				s.wants(err, lease.ErrConflict, "writer %d, which lost", i)
			}
		}
		if winner < 0 {
			s.Fatalf("none of %d concurrent writers succeeded", writers)
		}
		if got := s.get(stores[0], "a"); got.Version != won[winner].Version || string(got.Value) != string(won[winner].Value) {
			s.Fatalf("writer %d stored %s, but Get returns %s", winner, show(won[winner]), show(got))
		}
	}
}

func (s *suite) doneContext() {
	canceled, cancel := context.WithCancel(s.ctx)
	cancel()
	late, cancel := context.WithDeadline(s.ctx, time.Now().Add(-time.Second))
	defer cancel()
	stored := s.put(s.storage.Open(), "a", "", "value")
	for _, done := range []context.Context{canceled, late} {
		store := s.storage.Open()
		_, err := store.Get(done, "a")
		s.wants(err, done.Err(), "Get")
		_, err = store.List(done, "")
		s.wants(err, done.Err(), "List")
		_, err = store.Put(done, "b", "", []byte("value"))
		s.wants(err, done.Err(), "Put of a new entry")
		_, err = store.Put(done, "a", stored.Version, []byte("late"))
		s.wants(err, done.Err(), "Put")
		s.wants(store.Delete(done, "a", stored.Version), done.Err(), "Delete")
		if clock, ok := store.(driver.Clock); ok {
			_, err = clock.Now(done)
			s.wants(err, done.Err(), "Now")
		}
		time.Sleep(40 * time.Millisecond) // a late request would change it
		s.has(store, stored)
	}
}

// latePuts: a Put whose context ends takes effect completely or not at all, and not after another
// Put.
func (s *suite) latePuts() {
	store, other := s.storage.Open(), s.storage.Open()
	old := s.put(store, "a", "", "the value before")
	long := strings.Repeat("late ", 2000)
	for i := range 30 {
		ctx, cancel := context.WithTimeout(s.ctx, time.Duration(i)*100*time.Microsecond)
		put, err := store.Put(ctx, "a", old.Version, []byte(long))
		cancel()
		before := old
		for try := 0; ; try++ {
			got := s.get(other, "a")
			if !equal(got, before) && string(got.Value) != long || try == 0 && err == nil && !equal(got, put) {
				s.Fatalf("after a Put that returned %v, Get returns %s", err, show(got))
			}
			if old, err = other.Put(s.ctx, "a", got.Version, []byte("the value after")); err == nil {
				break
			}
			s.wants(err, lease.ErrConflict, "Put, when an earlier Put may still arrive")
			if try > 0 {
				s.Fatalf("one late Put leads to two conflicts")
			}
		}
	}
	time.Sleep(100 * time.Millisecond)
	s.has(store, old)
}

// resolution is the largest allowed difference between Entry.Time and readings of Now.
const resolution = 20 * time.Millisecond

// times: Entry.Time is the time of storing, by the clock that Now reads.
func (s *suite) times() {
	stores := s.open(2)
	engine, hasNow := stores[1].(driver.Clock)
	if hasNow {
		_, err := engine.Now(s.ctx)
		hasNow = !errors.Is(err, errors.ErrUnsupported)
	}
	now := func() (now time.Time) {
		if hasNow {
			var err error
			if now, err = engine.Now(s.ctx); err != nil {
				s.Fatalf("Now: %v", err)
			}
		}
		return now
	}
	before := now()
	first := s.put(stores[0], "a", "", "value")
	if hasNow && first.Time.IsZero() {
		s.Fatalf("the store has Now, and its entries have no Time")
	}
	last := first
	for i := range 10 {
		time.Sleep(5 * time.Millisecond)
		e := s.put(stores[i%2], "a", last.Version, "value")
		s.same(stores[i%2], e)
		if e.Time.IsZero() != first.Time.IsZero() || e.Time.Before(last.Time.Add(-resolution)) {
			s.Fatalf("an entry stored after %v has the time %v", last.Time, e.Time)
		}
		if after := now(); hasNow && (e.Time.Before(before.Add(-resolution)) || e.Time.After(after.Add(resolution))) {
			s.Fatalf("an entry stored between %v and %v, by Now, has the time %v", before, after, e.Time)
		}
		last = e
	}
	time.Sleep(2 * resolution)
	e := s.put(stores[0], "a", last.Version, "value")
	if !first.Time.IsZero() && !e.Time.After(last.Time) {
		s.Fatalf("an entry stored %v after %v has the time %v", 2*resolution, last.Time, e.Time)
	}
	start := now()
	time.Sleep(50 * time.Millisecond)
	s.same(stores[1], e) // reading does not change the time
	if passed := now().Sub(start); hasNow && passed < 50*time.Millisecond-resolution {
		s.Fatalf("in 50 ms, Now moves by %v", passed)
	}
}

// wiped: after all entries are lost, the store still works, and no version repeats.
func (s *suite) wiped() {
	if s.storage.Wipe == nil {
		s.Skip("Storage.Wipe is nil")
	}
	a := s.storage.Open()
	seen := map[string]bool{}
	for range 3 {
		e := s.put(a, "a", "", "value")
		for range 3 {
			if seen[e.Version] {
				s.Fatalf("the version %q repeats after all entries were lost", e.Version)
			}
			seen[e.Version] = true
			e = s.put(a, "a", e.Version, "value")
		}
		s.storage.Wipe()
		b := s.storage.Open()
		s.hasNo(b, "a")
		s.has(a)
		_, err := a.Put(s.ctx, "a", e.Version, []byte("late"))
		s.wants(err, lease.ErrConflict, "Put with a version before the loss")
		s.wants(b.Delete(s.ctx, "a", e.Version), lease.ErrConflict, "Delete with a version before the loss")
		s.has(b)
	}
	e := s.put(a, "a", "", "value")
	s.has(s.storage.Open(), e)
}

// garbled: Get returns an error and a version for an unreadable entry. List includes the entry,
// with this version and no value. Put and Delete with this version replace or remove it.
func (s *suite) garbled() {
	if s.storage.Garble == nil {
		s.Skip("Storage.Garble is nil")
	}
	store, another := s.storage.Open(), s.storage.Open()
	e := s.put(store, "a", "", "value")
	other := s.put(store, "b", "", "value")
	s.storage.Garble("a")
	bad := s.getBad(another, "a")
	if again := s.getBad(store, "a"); again.Version != bad.Version {
		s.Fatalf("the version of an unchanged unreadable entry is %q, and then %q", bad.Version, again.Version)
	}
	refused := func(store lease.Store, versions ...string) {
		s.Helper()
		for _, old := range versions {
			_, err := store.Put(s.ctx, "a", old, []byte("late"))
			s.wants(err, lease.ErrConflict, "Put with the version %q, where the unreadable entry was %q", old, e.Version)
			s.wants(store.Delete(s.ctx, "a", old), lease.ErrConflict,
				"Delete with the version %q, where the unreadable entry was %q", old, e.Version)
		}
	}
	for _, store := range []lease.Store{store, another} {
		got := s.list(store, "")
		if len(got) != 2 || got[0].Key != "a" || got[0].Version != bad.Version || got[0].Value != nil || !equal(got[1], other) {
			s.Fatalf("List does not return an unreadable entry with the version %q and no value, and the other one, but %s",
				bad.Version, show(got...))
		}
		refused(store, "", "no-version", e.Version, other.Version, bad.Version+"0", bad.Version[:len(bad.Version)-1])
		s.same(store, other)
	}
	e = s.put(another, "a", bad.Version, "another value")
	s.has(store, e, other)
	refused(store, bad.Version)
	s.has(another, s.put(store, "a", e.Version, "a value of the new entry"), other)

	s.storage.Garble("a")
	bad = s.getBad(store, "a")
	s.delete(another, "a", bad.Version)
	s.has(store, other)
	refused(store, bad.Version)
	s.has(another, s.put(store, "a", "", "value"), other)
}

// getBad returns an entry that cannot be read.
func (s *suite) getBad(store lease.Store, key string) lease.Entry {
	s.Helper()
	e, err := store.Get(s.ctx, key)
	s.wants(err, lease.ErrBadRecord, "Get of an unreadable entry")
	if e.Key != key || e.Version == "" || e.Value != nil {
		s.Fatalf("Get returns an unreadable entry not with its key, a version and no value, but as %s", show(e))
	}
	return e
}
