package leasetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// slack is how much a reading of a store's clock may be off, by the clock's resolution and by the
// drift of two clocks during a test.
const slack = 20 * time.Millisecond

func (s *suite) empty() {
	store := s.storage.Open()
	begun := time.Now()
	snap := s.load(store)
	if len(snap.Records) > 0 {
		s.Fatalf("there are records: %v", snap.Records)
	}
	if !snap.OwnClock {
		if now := snap.Now; now.Before(begun.Add(-slack)) || now.After(time.Now().Add(slack)) {
			s.Fatalf("OwnClock says that Now is by the clients' clock, but Now is %v and their clock reads %v", now, begun)
		}
	}
}

func (s *suite) firstVersion() {
	store := s.storage.Open()
	for _, version := range []uint64{0, 2, 3, 1 << 40} {
		_, err := store.Save(s.ctx, s.record(7, version))
		s.wants(err, lease.ErrConflict, "version %d, although there is no record", version)
		s.holds(store)
	}
	saved := s.save(store, s.record(7, 1))
	_, err := store.Save(s.ctx, s.record(7, 1))
	s.wants(err, lease.ErrConflict, "version 1 again")
	s.holds(s.storage.Open(), saved)
}

func (s *suite) nextVersion() {
	a, b := s.storage.Open(), s.storage.Open()
	s.save(a, s.record(7, 1))
	s.save(b, s.record(7, 2))
	saved := s.save(a, s.record(7, 3))
	for _, version := range []uint64{0, 1, 2, 3, 5, 6, 1 << 40} {
		r := s.record(7, version)
		r.Owner = "late"
		for _, store := range []lease.Store{a, b} {
			_, err := store.Save(s.ctx, r)
			s.wants(err, lease.ErrConflict, "version %d after version 3", version)
			s.holds(a, saved)
			s.holds(b, saved)
		}
	}
	saved = s.save(b, s.record(7, 4))
	s.holds(a, saved)

	for version := uint64(5); version < 40; version++ {
		saved = s.save(a, s.record(7, version))
	}
	s.holds(b, saved)
}

// roundTrip saves each record twice: as the first record of its worker, and over another record.
func (s *suite) roundTrip() {
	a, b := s.storage.Open(), s.storage.Open()
	var all []lease.Record
	for i, test := range variety() {
		r := s.record(i, 1)
		test.change(&r)
		plain := s.record(r.Worker, 2)
		plain.Layout = r.Layout
		plain.Bounds = make([]time.Time, 1)
		again := r
		again.Version = 3
		var saved lease.Record
		for _, r := range []lease.Record{r, plain, again} {
			if err := r.Validate(); err != nil {
				s.Fatalf("the test itself is wrong: %s: %v", test.name, err)
			}
			want := normal(r)
			saved = s.save(a, r)
			want.Renewed = saved.Renewed
			if d := diff(saved, want); d != "" {
				s.Fatalf("%s: version %d: what Save returns: %s", test.name, r.Version, d)
			}
			snap := s.load(b)
			at := slices.IndexFunc(snap.Records, func(got lease.Record) bool { return got.Worker == r.Worker })
			if at < 0 {
				s.Fatalf("%s: version %d: Load returns no record", test.name, r.Version)
			}
			if d := diff(snap.Records[at], watched(want, snap)); d != "" {
				s.Fatalf("%s: version %d: what Load returns: %s", test.name, r.Version, d)
			}
		}
		all = append(all, saved)
	}
	slices.SortFunc(all, func(a, b lease.Record) int { return a.Worker - b.Worker })
	s.holds(s.storage.Open(), all...)
}

type variation struct {
	name   string
	change func(*lease.Record)
}

// variety returns valid records. Each differs from a plain record in one field.
func variety() []variation {
	far := time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	early := snowflake.EpochAt(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	many := make([]time.Time, 256)
	for i := range many {
		if i%3 > 0 {
			many[i] = time.Date(2026, 1, 1, 0, 0, i, i*1001001, time.UTC)
		}
	}
	wide := snowflake.Layout{Epoch: 1, Unit: 7, TimeBits: 33, WorkerBits: 30}
	long := snowflake.Layout{Unit: math.MaxInt64, TimeBits: 20, WorkerBits: 8}
	seqs := snowflake.Layout{Epoch: -1, Unit: time.Millisecond, TimeBits: 41, ClockSeqBits: 8, WorkerBits: 8}
	full := snowflake.Layout{Epoch: 2, Unit: 3 * time.Microsecond, TimeBits: 40, ClockSeqBits: 3, DatacenterBits: 4, WorkerBits: 7, SequenceBits: 9, WorkerLast: true}
	return []variation{
		{"plain", func(r *lease.Record) {}},
		{"free", func(r *lease.Record) { r.State = lease.Free }},
		{"spent", func(r *lease.Record) { r.State = lease.Spent }},

		{"token", func(r *lease.Record) { r.Token = `a'b"c\d%s?$1:x;--` }},
		{"owner empty", func(r *lease.Record) { r.Owner = "" }},
		{"owner of blanks", func(r *lease.Record) { r.Owner = " \t " }},
		{"owner with line ends", func(r *lease.Record) { r.Owner = "a\nb\r\nc\n" }},
		{"owner with quotes", func(r *lease.Record) { r.Owner = `'; DROP TABLE "leases"; -- \' ${x} %s` }},
		{"owner with brackets", func(r *lease.Record) { r.Owner = "<a>&amp;{b}[c]/d" }},
		{"owner in many scripts", func(r *lease.Record) { r.Owner = "Zoë Ωμέγα 雪の結晶 ❄️ 🏂 \u2028 e\u0301" }},
		{"owner long", func(r *lease.Record) { r.Owner = strings.Repeat("an-owner/", 111) }},
		{"owner that is a number", func(r *lease.Record) { r.Owner = "007" }},
		{"owner that is a word", func(r *lease.Record) { r.Owner = "null" }},
		{"host", func(r *lease.Record) { r.Host = "h\u00f6st 'n' \"co\"\n" }},
		{"host empty", func(r *lease.Record) { r.Host = "" }},
		{"pid 0", func(r *lease.Record) { r.PID = 0 }},
		{"pid large", func(r *lease.Record) { r.PID = math.MaxInt32 }},

		{"bound with nanoseconds", func(r *lease.Record) { r.Bounds[0] = r.Bounds[0].Add(123456789) }},
		{"bound zero", func(r *lease.Record) { r.Bounds[0] = time.Time{} }},
		{"bound before 1970", func(r *lease.Record) { r.Bounds[0] = time.Unix(-1, 999999999) }},
		{"bound in 9999", func(r *lease.Record) { r.Bounds[0] = far }},
		{"bound of another zone", func(r *lease.Record) { r.Bounds[0] = r.Bounds[0].In(time.FixedZone("", 19800)) }},
		{"from with nanoseconds", func(r *lease.Record) { r.From = r.From.Add(987654321) }},
		{"from zero", func(r *lease.Record) { r.From = time.Time{} }},
		{"from before 1970", func(r *lease.Record) { r.From = time.Unix(-1, 999999999) }},
		{"from in 9999", func(r *lease.Record) { r.From = far }},
		{"forgotten", func(r *lease.Record) { r.Forgotten = r.From.Add(-123456789) }},
		{"forgotten before 1970", func(r *lease.Record) { r.Forgotten = time.Unix(-1, 999999999) }},
		{"forgotten in 9999", func(r *lease.Record) { r.Forgotten = far }},
		{"window with nanoseconds", func(r *lease.Record) { r.Window = 3*time.Second + 1 }},
		{"window short", func(r *lease.Record) { r.Window = time.Millisecond }},
		{"window longest", func(r *lease.Record) { r.Window = math.MaxInt64 }},

		{"clock sequences", func(r *lease.Record) {
			r.Layout, r.ClockSeq = snowflake.ClockSeqLayout(), 2
			r.Bounds = []time.Time{r.Bounds[0], {}, far, {}}
		}},
		{"clock sequences, 256", func(r *lease.Record) { r.Layout, r.ClockSeq, r.Bounds = seqs, 255, many }},
		{"worker of 10 bits", func(r *lease.Record) { r.Worker = 1023 }},
		{"worker of 30 bits", func(r *lease.Record) { r.Worker, r.Layout = 1<<30-1, wide }},
		{"worker of 16 bits, last", func(r *lease.Record) { r.Worker, r.Layout = 1<<16-1, snowflake.SonyflakeLayout() }},
		{"layout with all fields", func(r *lease.Record) { r.Layout = full }},
		{"layout of ages", func(r *lease.Record) { r.Layout = long }},
		{"epoch in the year 1", func(r *lease.Record) { r.Layout.Epoch = early }},
		{"epoch over 53 bits", func(r *lease.Record) { r.Layout.Epoch = 1<<53 + 1 }},
	}
}

// noAliases: the records that a caller passes and gets share no memory with the stored record.
func (s *suite) noAliases() {
	a := s.storage.Open()
	r := s.record(1, 1)
	saved := s.save(a, r)
	want := normal(saved)
	r.Bounds[0] = r.Bounds[0].Add(time.Hour)
	s.holds(a, want)
	saved.Bounds[0] = saved.Bounds[0].Add(time.Hour)
	s.holds(a, want)
	snap := s.load(a)
	snap.Records[0].Bounds[0] = time.Time{}
	snap.Records[0].Owner = "changed"
	s.holds(a, want)
}

func (s *suite) renewed() {
	a, b := s.storage.Open(), s.storage.Open()
	const pause = 5 * slack
	var last time.Time
	for version := uint64(1); version <= 4; version++ {
		r := s.record(1, version)
		r.Window = time.Minute
		r.Renewed = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(version) * time.Hour) // not the store's
		begun := time.Now()
		saved := s.save(a, r)
		snap := s.load(b)
		took := time.Since(begun)
		if len(snap.Records) != 1 || !snap.Records[0].Renewed.Equal(saved.Renewed) {
			s.Fatalf("Save returns that it was renewed at %v, Load returns %v", saved.Renewed, snap.Records)
		}
		if age := snap.Now.Sub(saved.Renewed); age < -slack || age > took+slack {
			s.Fatalf("a record that was saved and loaded within %v was renewed %v before Now", took, age)
		}
		if !snap.Records[0].Live(snap.Now) {
			s.Fatal("a record that has just been saved is not live")
		}
		if passed := saved.Renewed.Sub(last); version > 1 && passed < pause-slack {
			s.Fatalf("%v after a save the next one is of a time %v later", pause, passed)
		}
		last = saved.Renewed
		time.Sleep(pause)
	}
	snap := s.load(b)
	if age := snap.Now.Sub(last); age < pause-slack {
		s.Fatalf("%v after a save, Now is %v later", pause, age)
	}
	r := snap.Records[0]
	r.Version, r.Window = 5, time.Millisecond
	s.save(a, r)
	saved := time.Now()
	for snap = s.load(b); snap.Records[0].Live(snap.Now); snap = s.load(b) {
		if time.Since(saved) > 10*s.window {
			s.Fatalf("a record with a window of a millisecond is live %v after", time.Since(saved))
		}
		time.Sleep(slack)
	}
}

// oneWorker: LoadWorker returns the record of the worker, and of no other.
func (s *suite) oneWorker() {
	store := s.storage.Open()
	stored := map[int]lease.Record{}
	for _, w := range []int{0, 2, 9, 10, 99, 100, 1023} {
		stored[w] = s.save(store, s.record(w, 1))
	}
	for _, w := range []int{0, 1, 2, 9, 10, 11, 99, 100, 101, 999, 1000, 1023, 1024} {
		snap, err := s.storage.Open().LoadWorker(s.ctx, w)
		if err != nil {
			s.Fatalf("loading worker %d: %v", w, err)
		}
		want, ok := stored[w]
		switch {
		case !ok && len(snap.Records) > 0, ok && len(snap.Records) != 1:
			s.Errorf("of worker %d, which has a record: %v, LoadWorker returns %v", w, ok, snap.Records)
		case ok && diff(snap.Records[0], watched(want, snap)) != "":
			s.Errorf("worker %d: %s", w, diff(snap.Records[0], watched(want, snap)))
		}
	}
}

// loadsKeepUp: each record that Load returns was stored at some moment after the call began, and
// Load returns a record even if a client replaces it at the same time.
func (s *suite) loadsKeepUp() {
	const savers, loaders, each, loads = 2, 2, 8, 20
	var begun, done [savers * each]atomic.Uint64
	first := s.storage.Open()
	for w := range begun {
		s.save(first, s.record(w, 1))
		begun[w].Store(1)
		done[w].Store(1)
	}
	// Here nothing happens at once, so a stale view cannot hide.
	view := s.storage.Open()
	for version := uint64(2); version < 10; version++ {
		s.load(view)
		s.save(first, s.record(0, version))
		if r := s.load(view).Records[0]; r.Version != version {
			s.Fatalf("after a save of version %d a load returns %d", version, r.Version)
		}
		begun[0].Store(version)
		done[0].Store(version)
	}
	var stores []lease.Store
	for range savers + loaders {
		stores = append(stores, s.storage.Open())
	}
	var made atomic.Int64
	together(savers+loaders, func(i int) {
		for made.Load() < loaders*loads && s.ctx.Err() == nil && !s.Failed() {
			if i < savers {
				for w := i * each; w < (i+1)*each; w++ {
					version := begun[w].Add(1)
					if _, err := stores[i].Save(s.ctx, s.record(w, version)); err != nil {
						s.Errorf("saving version %d of worker %d: %v", version, w, err)
						return
					}
					done[w].Store(version)
				}
				continue
			}
			var least [savers * each]uint64
			for w := range done {
				least[w] = done[w].Load()
			}
			snap, err := stores[i].Load(s.ctx)
			if err != nil {
				s.Errorf("loading: %v", err)
				return
			}
			seen := 0
			for _, r := range snap.Records {
				seen++
				want := s.record(r.Worker, r.Version)
				want.Renewed = r.Renewed
				if d := diff(r, want); d != "" {
					s.Errorf("version %d of worker %d is mixed with another: %s", r.Version, r.Worker, d)
				}
				if most := begun[r.Worker].Load(); r.Version < least[r.Worker] || r.Version > most {
					s.Errorf("worker %d has version %d, which was %d before the load and %d after", r.Worker, r.Version, least[r.Worker], most)
				}
			}
			if seen != len(done) {
				s.Errorf("a load during saves returns %d records of %d", seen, len(done))
			}
			made.Add(1)
		}
	})
}

func (s *suite) oneWins() {
	const clients, rounds = 16, 10
	var stores []lease.Store
	for range clients {
		stores = append(stores, s.storage.Open())
	}
	for version := uint64(1); version <= rounds; version++ {
		var won [clients]lease.Record
		var errs [clients]error
		together(clients, func(i int) {
			r := s.record(3, version)
			r.Token, r.Owner = fmt.Sprint("token of ", i), fmt.Sprint("client ", i)
			r.Bounds[0] = r.Bounds[0].Add(time.Duration(i) * time.Hour)
			won[i], errs[i] = stores[i].Save(s.ctx, r)
		})
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case err == nil:
				s.Fatalf("version %d was saved by client %d and by client %d", version, winner, i)
			default:
				s.wants(err, lease.ErrConflict, "client %d, which lost", i)
			}
		}
		if winner < 0 {
			s.Fatalf("of %d saves of version %d at once not one succeeded", clients, version)
		}
		s.holds(stores[0], won[winner])
	}
}

func (s *suite) independent() {
	const clients, versions = 12, 8
	var stores []lease.Store
	for range clients {
		stores = append(stores, s.storage.Open())
	}
	var last [clients]lease.Record
	together(clients, func(i int) {
		for version := uint64(1); version <= versions; version++ {
			saved, err := stores[i].Save(s.ctx, s.record(i, version))
			if err != nil {
				s.Errorf("version %d of worker %d, which only one client saves: %v", version, i, err)
				return
			}
			last[i] = saved
		}
	})
	if !s.Failed() {
		s.holds(s.storage.Open(), last[:]...)
	}
}

// delayed: the requests of a holder that lost its worker ID arrive late.
func (s *suite) delayed() {
	a, b := s.storage.Open(), s.storage.Open()
	s.save(a, s.record(1, 1))
	s.save(a, s.record(1, 2))
	taken := s.record(1, 3)
	taken.Token, taken.Owner = "another", "another"
	taken.Bounds[0] = taken.Bounds[0].Add(time.Hour)
	taken = s.save(b, taken)
	for _, version := range []uint64{1, 2, 3} {
		late := s.record(1, version)
		late.Bounds[0] = late.Bounds[0].Add(24 * time.Hour)
		for _, state := range []lease.State{lease.Held, lease.Free} {
			late.State = state
			_, err := a.Save(s.ctx, late)
			s.wants(err, lease.ErrConflict, "version %d of the holder before", version)
			s.holds(b, taken)
		}
	}
	taken.Version++
	s.holds(a, s.save(b, taken))
}

func (s *suite) doneContext() {
	canceled, cancel := context.WithCancel(s.ctx)
	cancel()
	late, cancel := context.WithDeadline(s.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for _, done := range []context.Context{canceled, late} {
		store := s.storage.Open()
		stored := s.load(store).Records
		_, err := store.Load(done)
		s.wants(err, done.Err(), "Load")
		for _, version := range []uint64{1, 2, 3, 4} {
			_, err = store.Save(done, s.record(1, version))
			s.wants(err, done.Err(), "Save of version %d", version)
			s.holds(store, stored...)
		}
		time.Sleep(2 * slack) // it is not changed later, either
		s.holds(s.storage.Open(), stored...)
		s.save(store, s.record(1, uint64(len(stored))+1))
	}
}

// outOfTime: if the caller gives up, the store makes the whole save or no part of it, and the client
// still works.
func (s *suite) outOfTime() {
	store, other := s.storage.Open(), s.storage.Open()
	s.save(store, s.record(1, 1))
	for i := range 20 {
		old := s.load(other).Records[0]
		ctx, cancel := context.WithTimeout(s.ctx, time.Duration(i)*100*time.Microsecond)
		_, err := store.Save(ctx, s.record(1, old.Version+1))
		cancel()
		now := s.load(other).Records[0]
		want := s.record(1, now.Version)
		want.Renewed = now.Renewed
		if d := diff(now, want); d != "" {
			s.Fatalf("after a save that returned %v: %s", err, d)
		}
		if now.Version < old.Version || now.Version > old.Version+1 || err == nil && now.Version != old.Version+1 {
			s.Fatalf("after a save of version %d that returned %v the version is %d", old.Version+1, err, now.Version)
		}
	}
	for {
		saved, err := store.Save(s.ctx, s.record(1, s.load(other).Records[0].Version+1))
		if err == nil {
			s.holds(other, saved)
			return
		}
		s.wants(err, lease.ErrConflict, "Save, when an earlier save may still arrive")
	}
}

func (s *suite) garbled() {
	if s.storage.Garble == nil {
		s.Skip("Storage.Garble is nil")
	}
	store := s.storage.Open()
	s.save(store, s.record(1, 1))
	s.save(store, s.record(2, 1))
	s.storage.Garble(1)
	for _, store := range []lease.Store{store, s.storage.Open()} {
		snap, err := store.Load(s.ctx)
		if err == nil {
			s.Fatalf("Load takes no notice of a record that cannot be read, and returns %v", snap.Records)
		}
		s.wants(err, lease.ErrBadRecord, "Load")
		if _, err := store.Save(s.ctx, s.record(1, 1)); err == nil {
			s.Fatal("Save replaces an unreadable record as if there were no record")
		}
		_, err = store.LoadWorker(s.ctx, 1)
		s.wants(err, lease.ErrBadRecord, "LoadWorker")
		if one, err := store.LoadWorker(s.ctx, 2); err != nil || len(one.Records) != 1 {
			s.Fatalf("another worker's record: LoadWorker returns %v, %v", one.Records, err)
		}
		_, err = lease.Acquire(s.ctx, store, &lease.Options{First: 3, Count: 1})
		s.wants(err, lease.ErrBadRecord, "Acquire")
	}
}
