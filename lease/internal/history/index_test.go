//go:build go1.25

package history

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

var (
	seqs = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Millisecond, TimeBits: 41, ClockSeqBits: 2, SequenceBits: 4}
	both = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 8, ClockSeqBits: 2, SequenceBits: 4}
)

// idAt returns an ID.
func idAt(l snowflake.Layout, worker, seq int, t time.Time) snowflake.ID {
	id, err := l.Encode(snowflake.Parts{Worker: worker, ClockSeq: seq, Time: t})
	if err != nil {
		panic(err)
	}
	return id
}

// audited returns the Index of a door and records, whose chunks are all there unless a worker ID
// is in torn.
func audited(d protocol.Door, torn int, records ...protocol.Record) *Index {
	h := newIndex(d)
	for _, r := range records {
		h.add(d, r, nil, r.Worker != torn)
	}
	return h
}

// Each ID is of worker 3 and of clock sequence 0, unless its case says otherwise. Its time is a
// number of seconds after begun.
func TestHistorySaysWhoCanHaveIssuedAnID(t *testing.T) {
	begun := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	held := func(change func(*protocol.Record)) protocol.Record {
		r := protocol.Record{Worker: 3, Layout: both, State: protocol.StateHeld, ClockSeq: 1, From: at(20), Version: "1",
			Holder: protocol.Holder{Token: "now", Store: "s"}, Bounds: []time.Time{at(20), at(30)},
			History: protocol.History{Ended: []protocol.Holding{
				{Worker: 3, From: at(10), To: at(20), Token: "old"}, {Worker: 3, From: at(0), To: at(5), Token: "older"}}}}
		if change != nil {
			change(&r)
		}
		return r
	}
	open := protocol.Door{Name: "s", Layout: both, Open: true, Version: "1"}
	healed := protocol.Door{Name: "s", Layout: both, Open: true, Healed: true, NotBefore: at(12), Version: "1"}
	closed := protocol.Door{Name: "s", Layout: both, Version: "1"}
	type says map[int]any // by seconds: the token of the holder, or the error
	never, forgotten, notReported := ErrNeverIssued, ErrForgotten, ErrNotReported
	for why, test := range map[string]struct {
		d    protocol.Door
		r    protocol.Record
		torn bool
		seq  int
		says says
	}{
		"held, ended and never": {open, held(nil), false, 0, says{
			-1: never, 0: "older", 4: "older", 5: never, 9: never, 10: "old", 19: "old", 20: never, 99: never}},
		"the holder's clock sequence":         {open, held(nil), false, 1, says{19: never, 20: "now", 29: "now", 30: never}},
		"a clock sequence that nobody used":   {open, held(nil), false, 2, says{15: never, 25: never}},
		"released":                            {open, held(func(r *protocol.Record) { r.State = protocol.StateFree; r.Bounds[1] = at(25) }), false, 1, says{24: "now", 25: never}},
		"spent":                               {open, held(func(r *protocol.Record) { r.State = protocol.StateSpent }), false, 0, says{4: "older", 5: never}},
		"given back unused":                   {open, held(func(r *protocol.Record) { r.State = protocol.StateFree; r.Bounds[1] = at(20) }), false, 1, says{20: never, 25: never}},
		"trimmed":                             {open, held(func(r *protocol.Record) { r.Forgotten = at(8) }), false, 0, says{-1: forgotten, 4: "older", 7: forgotten, 8: never, 15: "old"}},
		"an earlier record was lost":          {open, held(func(r *protocol.Record) { r.NotBefore = at(8) }), false, 0, says{7: forgotten, 8: never}},
		"a chunk is missing":                  {open, held(nil), true, 0, says{4: "older", 7: forgotten, 15: "old", 99: forgotten}},
		"a local copy":                        {open, held(func(r *protocol.Record) { r.Offline = true }), false, 0, says{4: "older", 7: never, 20: notReported, 99: notReported}},
		"a local copy's other clock sequence": {open, held(func(r *protocol.Record) { r.Offline = true; r.NotBefore = at(2) }), false, 2, says{1: forgotten, 2: notReported}},
		"a local copy that was released":      {open, held(func(r *protocol.Record) { r.Offline = true; r.State = protocol.StateFree }), false, 0, says{20: notReported}},
		"the store is healing":                {closed, held(nil), false, 0, says{4: "older", 7: forgotten, 99: forgotten}},
		"taken after the store healed":        {healed, held(func(r *protocol.Record) { r.NotBefore = at(8) }), false, 0, says{7: forgotten, 9: never, 20: never}},
		"put back, and perhaps an older one":  {healed, held(func(r *protocol.Record) { r.Store = "before" }), false, 0, says{4: "older", 7: forgotten, 9: forgotten, 12: "old", 20: never}},
		"the same, and the engine has no clock": {protocol.Door{Name: "s", Layout: both, Open: true, Healed: true, Version: "1"}, held(func(r *protocol.Record) { r.Store = "before" }), false, 0,
			says{4: "older", 7: forgotten, 99: forgotten}},
		"lost":                             {open, protocol.Record{Worker: 3, State: protocol.StateLost}, false, 0, says{-1: forgotten, 99: forgotten}},
		"lost, and kept as lost":           {open, protocol.Record{Worker: 3, State: protocol.StateLost, Layout: both, Version: "1", Waited: protocol.Waited{Name: "x"}}, false, 0, says{5: forgotten}},
		"never leased":                     {open, protocol.Record{Worker: 4, Version: "1"}, false, 0, says{-1: never, 99: never}},
		"no record, in a store that lost":  {healed, protocol.Record{Worker: 4, Version: "1"}, false, 0, says{11: forgotten, 12: never}},
		"no record, in a store that heals": {closed, protocol.Record{Worker: 4, Version: "1"}, false, 0, says{11: forgotten, 99: forgotten}},
		"a change of the clock sequence that was given up: who began later is right": {open, held(func(r *protocol.Record) {
			r.Ended = []protocol.Holding{{Worker: 3, From: at(0), To: at(30), Token: "given up"},
				{Worker: 3, From: at(10), To: at(20), Token: "later"}}
		}), false, 0, says{9: "given up", 10: "later", 19: "later", 20: "given up", 30: never}},
	} {
		torn := protocol.None
		if test.torn {
			torn = 3
		}
		h := audited(test.d, torn, test.r)
		for s, want := range test.says {
			by, err := h.Whois(idAt(both, 3, test.seq, at(s)))
			if token, ok := want.(string); ok {
				if assert.NoError(t, err, "%s: %d s", why, s) {
					assert.Equal(t, token, by.Token, "%s: %d s", why, s)
				}
				continue
			}
			assert.ErrorIs(t, err, want.(error), "%s: %d s", why, s)
			assert.Nil(t, by)
		}
	}
}

func TestHistoryNamesTheHoldersAroundAnID(t *testing.T) {
	begun := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	h := audited(protocol.Door{Name: "s", Layout: both, Open: true}, protocol.None,
		protocol.Record{Worker: 3, Layout: both, Holder: protocol.Holder{Token: "c"}, From: at(20), Bounds: []time.Time{at(30)}, Version: "1",
			History: protocol.History{Ended: []protocol.Holding{{From: at(10), To: at(15), Token: "b"}, {From: at(0), To: at(5), Token: "a"},
				{From: at(-9), To: at(-9), Token: "unused"}}}})
	for s, want := range map[int][2]string{
		-1: {"", "a"},
		2:  {"", "b"},
		5:  {"a", "b"},
		12: {"a", "c"},
		15: {"b", "c"},
		25: {"b", ""},
		30: {"c", ""},
	} {
		before, after := h.Around(idAt(both, 3, 0, at(s)))
		for i, by := range []*protocol.Holding{before, after} {
			if want[i] == "" {
				assert.Nil(t, by, "%d s", s)
			} else if assert.NotNil(t, by, "%d s", s) {
				assert.Equal(t, want[i], by.Token, "%d s", s)
			}
		}
	}
	for _, id := range []snowflake.ID{idAt(both, 3, 1, at(2)), idAt(both, 4, 0, at(2))} {
		before, after := h.Around(id)
		assert.Nil(t, before)
		assert.Nil(t, after)
	}
	assert.Equal(t, at(0), h.Begins())
}

// issuer returns the holding of an ID, in the slow way: of those that have its time, the one that
// began last.
func issuer(holdings []protocol.Holding, parts snowflake.Parts) (by protocol.Holding, ok bool) {
	for _, h := range holdings {
		if h.ClockSeq == parts.ClockSeq && !parts.Time.Before(h.From) && parts.Time.Before(h.To) && (!ok || h.From.After(by.From)) {
			by, ok = h, true
		}
	}
	return by, ok
}

// If holdings overlap, the one that began last has issued an ID.
func TestHistoryOfHoldingsThatOverlap(t *testing.T) {
	layouts := []snowflake.Layout{both, seqs,
		{Epoch: snowflake.UnixEpoch, Unit: 3 * time.Millisecond, TimeBits: 41, WorkerBits: 3, SequenceBits: 4, WorkerLast: true}}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 42))
		l := layouts[r.IntN(len(layouts))]
		begun := time.UnixMilli(3000)
		var all []protocol.Holding
		for i := range r.IntN(8) {
			from := begun.Add(time.Duration(r.IntN(40)) * time.Millisecond / 2)
			all = append(all, protocol.Holding{
				ClockSeq: r.IntN(1 << min(1, l.ClockSeqBits)),
				From:     from,
				To:       from.Add(time.Duration(r.IntN(30)-3) * time.Millisecond / 2),
				Token:    fmt.Sprint(i),
			})
		}
		h := audited(protocol.Door{Name: "s", Layout: l, Open: true}, protocol.None, protocol.Record{Layout: l, Version: "1", History: protocol.History{Ended: all}, Bounds: []time.Time{{}}})
		for ms := range 60 {
			for seq := range 2 {
				if seq >= 1<<l.ClockSeqBits {
					continue
				}
				id := idAt(l, 0, seq, begun.Add(time.Duration(ms-5)*time.Millisecond))
				want, ok := issuer(all, l.Decode(id))
				by, err := h.Whois(id)
				if !ok {
					require.ErrorIs(t, err, ErrNeverIssued, "seed %d: %v", seed, all)
					continue
				}
				require.NoError(t, err, "seed %d: %v", seed, all)
				require.Equal(t, want, *by, "seed %d, %v: %v", seed, l.Decode(id), all)
			}
		}
	}
}

func TestHistoryAllocatesNothing(t *testing.T) {
	begun := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	h := audited(protocol.Door{Name: "s", Layout: both, Open: true}, protocol.None,
		protocol.Record{Worker: 3, Layout: both, Holder: protocol.Holder{Token: "c"}, From: begun, Bounds: []time.Time{begun.Add(time.Hour)}, Version: "1"})
	for _, id := range []snowflake.ID{idAt(both, 3, 0, begun), idAt(both, 4, 0, begun), idAt(both, 3, 0, begun.Add(time.Hour)), -1} {
		assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = h.Whois(id) }))
	}
}

// The history has 100,000 holdings, of 1,024 worker IDs.
func BenchmarkHistory(b *testing.B) {
	l := snowflake.DefaultLayout()
	begun := l.Epoch.Time().Add(24 * time.Hour)
	const holdings, each = 100_000, 1000 * time.Second
	d := protocol.Door{Name: "s", Layout: l, Open: true}
	h := newIndex(d)
	for worker := range 1024 {
		r := protocol.Record{Worker: worker, Layout: l, Holder: protocol.Holder{Token: "now", Store: "s"}, Version: "1", Bounds: []time.Time{begun}}
		for n := range holdings / 1024 {
			r.Ended = append(r.Ended, protocol.Holding{
				Worker: worker,
				From:   begun.Add(time.Duration(n) * each),
				To:     begun.Add(time.Duration(n)*each + each*9/10),
				Token:  "t",
			})
		}
		h.add(d, r, nil, true)
	}
	for _, order := range []string{"sorted", "shuffled"} {
		b.Run("order="+order, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			ids := make([]snowflake.ID, 1<<20)
			for i := range ids {
				ids[i] = idAt(l, r.IntN(1024), 0, begun.Add(time.Duration(i)*each*(holdings/1024)>>20))
			}
			if order == "shuffled" {
				r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			}
			b.ReportAllocs()
			held := 0
			for i := 0; b.Loop(); i++ {
				if _, err := h.Whois(ids[i%len(ids)]); err == nil {
					held++
				}
			}
			b.ReportMetric(float64(held)/float64(b.N), "held/ID")
		})
	}
}
