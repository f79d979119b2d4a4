package leasetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// openHistorian opens a client. It skips the test if the store is no Historian.
func (s *suite) openHistorian() lease.Historian {
	s.Helper()
	h, ok := s.storage.Open().(lease.Historian)
	if !ok {
		s.Skip("the store is no lease.Historian")
	}
	return h
}

// ending returns a holding of a worker, which differs from its holding with another n.
func (s *suite) ending(worker, n int) lease.Holding {
	at := time.Date(2026, 11, 20, 12, 0, n, worker, time.UTC)
	return lease.Holding{
		Worker: worker, From: at, To: at.Add(time.Second),
		Token: fmt.Sprint("token ", n), Owner: fmt.Sprint("owner ", n), Host: "host", PID: n,
	}
}

func (s *suite) saveEnding(h lease.Historian, r lease.Record, ended lease.Holding, forget time.Time) lease.Record {
	s.Helper()
	saved, err := h.SaveEnding(s.ctx, r, ended, forget)
	if err != nil {
		s.Fatalf("saving version %d of worker %d, which ends %v: %v", r.Version, r.Worker, ended, err)
	}
	return saved
}

// keeps checks that this is the history of a worker.
func (s *suite) keeps(h lease.Historian, worker int, want ...lease.Holding) {
	s.Helper()
	got, err := h.History(s.ctx, worker)
	if err != nil {
		s.Fatalf("the history of worker %d: %v", worker, err)
	}
	plain := func(all []lease.Holding) []lease.Holding {
		all = slices.Clone(all)
		for i := range all {
			all[i].From, all[i].To = all[i].From.UTC().Round(0), all[i].To.UTC().Round(0)
		}
		slices.SortFunc(all, func(a, b lease.Holding) int {
			return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.Token, b.Token), cmp.Compare(a.ClockSeq, b.ClockSeq))
		})
		return all
	}
	got, want = plain(got), plain(want)
	if len(got) != len(want) {
		s.Fatalf("the history of worker %d has %d holdings, not %d: %v", worker, len(got), len(want), got)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			s.Fatalf("the history of worker %d has\n%+v, not\n%+v", worker, got[i], want[i])
		}
	}
}

// history: what SaveEnding keeps, replaces and drops.
func (s *suite) history() {
	a, b := s.openHistorian(), s.openHistorian()
	s.keeps(a, 1)
	s.save(a, s.record(1, 1))
	s.save(a, s.record(2, 1))
	s.keeps(b, 1)

	one, two := s.ending(1, 1), s.ending(1, 2)
	saved := s.saveEnding(a, s.record(1, 2), one, time.Time{})
	s.keeps(b, 1, one)
	s.keeps(b, 2)
	saved.Version++
	saved = s.saveEnding(b, saved, two, one.To) // a holding that ends at that time stays
	s.keeps(a, 1, one, two)

	longer := one
	longer.To = longer.To.Add(time.Nanosecond)
	saved.Version++
	saved = s.saveEnding(a, saved, longer, time.Time{})
	s.keeps(b, 1, longer, two)
	seq, later, other := one, one, one // three other holdings
	seq.ClockSeq, later.From, other.Token = 3, one.From.Add(time.Nanosecond), "another"
	for _, h := range []lease.Holding{seq, later, other} {
		saved.Version++
		saved = s.saveEnding(a, saved, h, time.Time{})
	}
	s.keeps(b, 1, longer, two, seq, later, other)

	saved.Version++
	saved = s.save(a, saved) // as a renewal does
	s.keeps(b, 1, longer, two, seq, later, other)
	three := s.ending(1, 3)
	saved.Version++
	saved = s.saveEnding(b, saved, three, two.To)
	s.keeps(a, 1, two, three)
	four := s.ending(1, 4)
	saved.Version++
	saved = s.saveEnding(b, saved, four, four.To) // a holding that ends now stays too
	s.keeps(a, 1, four)
	saved.Version++
	saved = s.saveEnding(b, saved, s.ending(1, 5), s.ending(1, 9).To)
	s.keeps(a, 1)

	var many []lease.Holding
	for n := range depth.Of(120, 300) {
		many = append(many, s.ending(1, 100+n))
		saved.Version++
		saved = s.saveEnding(a, saved, many[n], time.Time{})
	}
	s.keeps(b, 1, many...)
	last := many[len(many)-1]
	saved.Version++
	saved = s.saveEnding(a, saved, s.ending(1, 1000), last.To)
	s.keeps(b, 1, last, s.ending(1, 1000))
	s.keeps(b, 2)
	snap := s.load(b)
	if d := diff(snap.Records[0], watched(saved, snap)); d != "" {
		s.Fatalf("the record: %s", d)
	}
}

// holdingsAsTheyWere: each field comes back.
func (s *suite) holdingsAsTheyWere() {
	h := s.openHistorian()
	far := time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	var want []lease.Holding
	saved := s.save(h, s.record(1, 1))
	for i, change := range []func(*lease.Holding){
		func(*lease.Holding) {},
		func(h *lease.Holding) { h.ClockSeq = 255 },
		func(h *lease.Holding) { h.From = h.From.Add(123456789) },
		func(h *lease.Holding) { h.From = time.Time{} },
		func(h *lease.Holding) { h.From = time.Unix(-1, 999999999) },
		func(h *lease.Holding) { h.To = h.To.Add(987654321) },
		func(h *lease.Holding) { h.To = far },
		func(h *lease.Holding) { h.To = h.To.In(time.FixedZone("", 19800)) },
		func(h *lease.Holding) { h.Token = `a'b"c\d%s?$1:x;--` },
		func(h *lease.Holding) { h.Owner = "" },
		func(h *lease.Holding) { h.Owner = " a\nb\r\nc\t " },
		func(h *lease.Holding) { h.Owner = "Zoë Ωμέγα 雪の結晶 ❄️ 🏂 \u2028 e\u0301" },
		func(h *lease.Holding) { h.Owner = strings.Repeat("an-owner/", 111) },
		func(h *lease.Holding) { h.Host = `'; DROP TABLE "leases"; -- ` },
		func(h *lease.Holding) { h.PID = math.MaxInt32 },
		func(h *lease.Holding) { h.PID = 0 },
	} {
		ended := s.ending(1, 1+i)
		change(&ended)
		want = append(want, ended)
		saved.Version++
		saved = s.saveEnding(h, saved, ended, time.Time{})
	}
	s.keeps(s.openHistorian(), 1, want...)
}

// failedSavesKeepNothing: if the record is not saved, the holding is not kept either.
func (s *suite) failedSavesKeepNothing() {
	h := s.openHistorian()
	s.save(h, s.record(1, 1))
	s.saveEnding(h, s.record(1, 2), s.ending(1, 1), time.Time{})
	all := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, version := range []uint64{0, 1, 2, 4, 1 << 40} {
		_, err := h.SaveEnding(s.ctx, s.record(1, version), s.ending(1, 2), all)
		s.wants(err, lease.ErrConflict, "version %d after version 2", version)
		s.keeps(h, 1, s.ending(1, 1))
	}
	_, err := h.SaveEnding(s.ctx, s.record(2, 2), s.ending(2, 2), time.Time{})
	s.wants(err, lease.ErrConflict, "version 2, although there is no record")
	s.keeps(h, 2)

	done, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err = h.SaveEnding(done, s.record(1, 3), s.ending(1, 2), all)
	s.wants(err, context.Canceled, "SaveEnding")
	_, err = h.History(done, 1)
	s.wants(err, context.Canceled, "History")
	time.Sleep(2 * slack) // it is not kept later, either
	s.keeps(h, 1, s.ending(1, 1))

	// If many take the worker ID at once, only the winner's holding is kept.
	const takers, rounds = 16, 10
	var stores []lease.Historian
	for range takers {
		stores = append(stores, s.openHistorian())
	}
	kept := []lease.Holding{s.ending(1, 1)}
	for round := range rounds {
		var errs [takers]error
		together(takers, func(i int) {
			r := s.record(1, uint64(3+round))
			r.Token = fmt.Sprintf("round %d, taker %d", round, i)
			_, errs[i] = stores[i].SaveEnding(s.ctx, r, s.ending(1, 100*(round+1)+i), time.Time{})
		})
		for i, err := range errs {
			if err == nil {
				kept = append(kept, s.ending(1, 100*(round+1)+i))
			} else {
				s.wants(err, lease.ErrConflict, "taker %d, who was late", i)
			}
		}
		if len(kept) != 2+round {
			s.Fatalf("round %d has %d winners", round, len(kept)-1-round)
		}
		s.keeps(h, 1, kept...)
	}

	// A save whose caller gave up keeps its holding if the record is saved.
	version := uint64(2 + rounds)
	for i := range 20 {
		ctx, cancel := context.WithTimeout(s.ctx, time.Duration(i)*100*time.Microsecond)
		_, err := stores[0].SaveEnding(ctx, s.record(1, version+1), s.ending(1, 5000+i), time.Time{})
		cancel()
		now := s.load(h).Records[0].Version
		// The store may make the save between two of these calls.
		got, herr := h.History(s.ctx, 1)
		if herr != nil {
			s.Fatal(herr)
		}
		again := s.load(h).Records[0].Version
		has := slices.ContainsFunc(got, func(k lease.Holding) bool { return k.PID == 5000+i })
		if now == again && has != (now == version+1) {
			s.Fatalf("after a save that returned %v the version is %d after %d, and its holding is there: %v", err, now, version, has)
		}
		for version = again; ; version++ { // until the save cannot arrive any more
			if _, err := h.Save(s.ctx, s.record(1, version+1)); err == nil {
				version++
				break
			} else if !errors.Is(err, lease.ErrConflict) {
				s.Fatal(err)
			}
		}
	}
}

// hands is the host's clock plus an offset, which the test sets.
type hands struct{ off atomic.Int64 } // nanoseconds

func setTo(off time.Duration) *hands {
	h := new(hands)
	h.off.Store(int64(off))
	return h
}

func (h *hands) Now() time.Time { return time.Now().Add(time.Duration(h.off.Load())) }

// issuers: after many takeovers, crashes and changes of the clock sequence, Whois finds the issuer of
// each ID, and returns ErrNeverIssued if nobody can have issued the ID.
func (s *suite) issuers() {
	h := s.openHistorian()
	layout := snowflake.ClockSeqLayout()
	layout.Epoch, layout.Unit = snowflake.TwitterEpoch, 2*time.Millisecond
	const worker = 3
	turns, crashes := depth.Of(60, 200), depth.Of(2, 4)
	seen := newIssued()
	clock := new(hands)
	begun := time.Now()
	store := s.storage.Open()
	var bumps uint64
	var top time.Duration
	for turn := 0; turn < turns || bumps == 0 && turn < 20*turns; turn++ { // seldom, chance changes no clock sequence for long
		o := s.options(fmt.Sprint("turn ", turn), worker, worker)
		o.Layout, o.Clock, o.MaxLeap, o.Window = layout, clock, 1000*time.Hour, s.window
		crash := turn%(turns/crashes) == turns/crashes/2
		hold, err := s.acquire(store, o)
		for err != nil { // the last holder crashed, or the clock is before the end of each clock sequence
			if errors.Is(err, snowflake.ErrClockBackward) {
				top += long
				clock.off.Store(int64(top))
			} else {
				s.wants(err, lease.ErrExhausted, "%s acquires", o.Owner)
			}
			hold, err = s.acquire(store, o)
		}
		for range 1 + rand.IntN(3) {
			if _, err := hold.next(seen, o.Owner); err != nil && !errors.Is(err, snowflake.ErrLeaseExpired) && !errors.Is(err, snowflake.ErrClockBackward) {
				s.Fatalf("%s: %v", o.Owner, err)
			}
			if rand.IntN(4) == 0 {
				clock.off.Add(-int64(time.Hour))
			}
		}
		bumps += hold.Generator.Stats().Bumps
		if crash {
			hold.crash()
		} else {
			s.release(hold)
		}
	}
	if bumps == 0 {
		s.Error("there was no change of the clock sequence")
	}
	asked := 0
	for id, name := range seen.by {
		if asked++; asked > 40 && !depth.Full() {
			break
		}
		who, err := lease.Whois(s.ctx, h, id)
		if err != nil {
			s.Fatalf("%s issued %d (%v), and Whois says %v", name, id, layout.Decode(id), err)
		}
		if who.Owner != name {
			s.Fatalf("%s issued %d (%v), and Whois says %+v", name, id, layout.Decode(id), who)
		}
	}
	s.Logf("%d IDs, %d changes of the clock sequence", len(seen.by), bumps)

	for what, p := range map[string]snowflake.Parts{
		"a worker ID that nobody had":      {Worker: worker + 1, Time: begun},
		"a time before the first holder's": {Worker: worker, Time: begun.Add(-1000 * time.Hour)},
		"a time after the last holder's":   {Worker: worker, Time: begun.Add(1000 * time.Hour)},
	} {
		id, err := layout.Encode(p)
		if err != nil {
			s.Fatal(err)
		}
		who, err := lease.Whois(s.ctx, h, id)
		if !errors.Is(err, lease.ErrNeverIssued) {
			s.Errorf("%s: Whois says %v, %v", what, who, err)
		}
	}
	_, err := lease.Whois(s.ctx, h, -1)
	s.wants(err, lease.ErrNeverIssued, "a negative ID")
}

// forgotten: if a holding ended longer than Options.History ago, it is dropped, and Whois returns
// ErrForgotten.
func (s *suite) forgotten() {
	h := s.openHistorian()
	const day = 24 * time.Hour
	var ids []snowflake.ID
	for i, at := range []time.Duration{0, 20 * day, 40 * day, 41 * day} {
		o := s.options(fmt.Sprint("holder ", i), 3, 3)
		o.Clock, o.MaxLeap, o.History = setTo(at), 1000*day, 30*day
		hold := s.mustAcquire(s.storage.Open(), o)
		ids = append(ids, hold.issue(newIssued(), o.Owner, 1))
		s.release(hold)
	}
	_, err := lease.Whois(s.ctx, h, ids[0])
	s.wants(err, lease.ErrForgotten, "an ID from before the history's beginning")
	for i, id := range ids[1:] {
		if who, err := lease.Whois(s.ctx, h, id); err != nil || who.Owner != fmt.Sprint("holder ", i+1) {
			s.Errorf("holder %d's ID: Whois says %v, %v", i+1, who, err)
		}
	}
	if kept, err := h.History(s.ctx, 3); err != nil || len(kept) != 2 {
		s.Errorf("the history is %v, %v, but two have ended within 30 days", kept, err)
	}
}

// wiped: if a store loses its records while holders use them, it does not look new.
func (s *suite) wiped() {
	if s.storage.Wipe == nil {
		s.Skip("Storage.Wipe is nil")
	}
	store := s.storage.Open()
	o := s.options("a", 0, 5)
	o.Window = s.window
	a := s.mustAcquire(store, o)
	saved := s.save(store, s.record(1, 1))
	seen := newIssued()
	a.issue(seen, "a", 10)
	s.storage.Wipe()
	for name, client := range map[string]lease.Store{"a client of before": store, "a new client": s.storage.Open()} {
		_, err := client.Load(s.ctx)
		s.wants(err, lease.ErrWiped, "%s: Load", name)
		_, err = client.LoadWorker(s.ctx, 1)
		s.wants(err, lease.ErrWiped, "%s: LoadWorker", name)
		for _, version := range []uint64{1, saved.Version + 1} {
			_, err = client.Save(s.ctx, s.record(1, version))
			s.wants(err, lease.ErrWiped, "%s: Save of version %d", name, version)
		}
		if h, ok := client.(lease.Historian); ok {
			_, err = h.SaveEnding(s.ctx, s.record(1, saved.Version+1), s.ending(1, 1), time.Time{})
			s.wants(err, lease.ErrWiped, "%s: SaveEnding", name)
		}
		o.Owner = "b"
		_, err = s.acquire(client, o)
		s.wants(err, lease.ErrWiped, "%s: Acquire", name)
	}
	for stats := a.Lease.Stats(); !errors.Is(stats.LastError, lease.ErrWiped); stats = a.Lease.Stats() {
		if s.ctx.Err() != nil {
			s.Fatalf("the holder does not say that the store was wiped: %+v", stats)
		}
		time.Sleep(s.window / 50)
	}
	if _, err := a.exhaust(seen, "a"); !errors.Is(err, snowflake.ErrLeaseExpired) {
		s.Errorf("the holder goes on: %v", err)
	}
}
