//go:build go1.25

package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// The functions of protocol.go, where no story comes.

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// at returns an instant that is s seconds after noon.
func at(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }

// rec returns a record of worker ID 0 with this bound, in a layout with clock sequences.
func rec(token string, state State, bound int) record {
	return record{Layout: seqs, Token: token, Owner: token, State: state, Saves: 5, Window: span,
		Bounds: []time.Time{at(bound)}, From: at(0), Least: at(0), version: "5"}
}

func TestFreeClockSequenceHasTheLatestBoundBeforeTheClock(t *testing.T) {
	const unused = -99
	for why, test := range map[string]struct {
		bounds    []int
		seq, from int
	}{
		"no clock sequence used":                           {nil, 0, unused},
		"the latest bound before the clock":                {[]int{-3, -1, -2}, 1, -1},
		"a bound that is now":                              {[]int{1, 0}, 1, 0},
		"an unused clock sequence if all bounds are ahead": {[]int{1, 2}, 2, unused},
		"an unused clock sequence between others":          {[]int{1, unused, 1}, 1, unused},
		"the earliest bound if all are ahead":              {[]int{4, 2, 1, 3}, 2, 1},
	} {
		instant := func(s int) (i time.Time) {
			if s != unused {
				i = at(s)
			}
			return i
		}
		r := record{Layout: seqs}
		for _, s := range test.bounds {
			r.Bounds = append(r.Bounds, instant(s))
		}
		seq, from := r.start(at(0))
		assert.Equal(t, test.seq, seq, why)
		assert.Equal(t, instant(test.from), from, why)
	}
}

func TestRecordIsLiveForAWindowAfterRenewal(t *testing.T) {
	for idle, live := range map[time.Duration]bool{0: true, span: true, span + 1: false, -span: true} {
		assert.Equal(t, live, rec("a", StateHeld, 3).live(idle), "%v", idle)
		assert.False(t, rec("a", StateFree, 3).live(idle))
	}
}

func TestWindowBeginsAtTheBoundAndAtTheWatermark(t *testing.T) {
	assert.Equal(t, at(2), window{from: at(2), above: at(1)}.begin())
	assert.Equal(t, at(2), window{from: at(1), above: at(2)}.begin())
}

// The clock may be set back after the worker ID was chosen, and the window may begin later than
// now.
func TestTakeKeepsTheBoundAndGoesNoFurtherThanAWindow(t *testing.T) {
	old := rec("a", StateHeld, 9)
	old.NoFloor, old.Waited, old.Host, old.Reuse, old.Store = true, waited{For: span}, "h", ReuseKeep, "s"
	id := record{Token: "b", Owner: "b", Host: "i", PID: 7, Window: span, Store: "t", Copy: true, Least: at(9)}
	next := old.take(window{from: at(9), before: at(9)}, id, clocks{own: at(1)})
	assert.Equal(t, at(9), next.Bound())
	assert.Equal(t, at(10), old.take(window{from: at(9), before: at(9)}, id, clocks{own: at(7)}).Bound())
	want := record{Layout: seqs, Token: "b", Owner: "b", Host: "i", PID: 7, State: StateHeld, Saves: 5, Window: span,
		Bounds: []time.Time{at(9)}, From: at(9), To: at(9), Least: at(9),
		Store: "t", Copy: true, Reuse: ReuseKeep, Prior: prior{at(0), at(9)}, version: "5"}
	assert.Equal(t, want, next)
	assert.Zero(t, rec("a", StateFree, 9).take(window{}, id, clocks{own: at(1)}).Prior, "who gave the worker ID back stamps nothing")
	assert.Zero(t, old.take(window{}, id, clocks{at(9), at(9)}).Prior, "its window has ended")
	for _, c := range []clocks{{at(8), at(9)}, {at(9), at(8)}} {
		assert.Equal(t, prior{at(0), at(9)}, old.take(window{}, id, c).Prior, "its window may be open: %v", c)
	}
	old.Prior = prior{at(-3), at(8)}
	assert.Equal(t, prior{at(-3), at(9)}, old.take(window{}, id, clocks{own: at(7)}).Prior)
	assert.Equal(t, prior{at(0), at(9)}, old.take(window{}, id, clocks{own: at(8)}).Prior, "a window that has ended is not remembered")
	old.Prior = prior{}
	undone := next.undo(rec("a", StateFree, 9), window{from: at(10), before: at(9)})
	want.State, want.Owner, want.Reuse = StateFree, "a", ReuseAny
	assert.Equal(t, want, undone, "the worker ID goes back, and earlier holders may still be up")
}

func TestJudgeOfARecordThatWasFound(t *testing.T) {
	own, w := rec("b", StateHeld, 9), window{from: at(3), to: at(9)}
	own.Ended = []Holding{{Token: "a", To: at(3)}}
	for why, test := range map[string]struct {
		change func(*record)
		gone   bool
		from   int // of the overlap; 0 if there is none
	}{
		"an earlier holder has put its record back": {func(r *record) { r.Token, r.Bounds = "a", []time.Time{at(3)} }, true, 0},
		"and has moved its bound since":             {func(r *record) { r.Token, r.Bounds = "a", []time.Time{at(4)} }, false, 3},
		"and has saved more often":                  {func(r *record) { r.Token, r.Bounds, r.Saves = "a", []time.Time{at(3)}, 6 }, false, 3},
		"and has released it":                       {func(r *record) { r.Token, r.Bounds, r.State = "a", []time.Time{at(3)}, StateFree }, false, 3},
		"a holder that is no earlier one":           {func(r *record) { r.Token, r.Bounds = "c", []time.Time{at(2)} }, false, 3},
		"a later holder":                            {func(r *record) { r.Token, r.From, r.Bounds = "c", at(9), []time.Time{at(12)} }, false, 0},
		"a holder of the same time":                 {func(r *record) { r.Token, r.From, r.Bounds = "c", at(1), []time.Time{at(12)} }, false, 3},
		"a holder of the time from the middle on":   {func(r *record) { r.Token, r.From, r.Bounds = "c", at(5), []time.Time{at(12)} }, false, 5},
		"a holder of another clock sequence": {func(r *record) {
			r.Token, r.From, r.ClockSeq, r.Bounds = "c", at(5), 1, []time.Time{at(9), at(12)}
		}, false, 0},
		"and the bound of this one has gone back": {func(r *record) {
			r.Token, r.From, r.ClockSeq, r.Bounds = "c", at(5), 1, []time.Time{at(6), at(12)}
		}, false, 6},
		"a later holder, and before it one of the same time": {func(r *record) {
			r.Token, r.From, r.Bounds, r.Ended = "c", at(12), []time.Time{at(15)}, []Holding{{Token: "d", From: at(6), To: at(12)}}
		}, false, 6},
	} {
		t.Run(why, func(t *testing.T) {
			found := own
			found.Ended = nil
			test.change(&found)
			_, err := judge(own, w, nil, found)
			over := new(overlap)
			if test.gone {
				assert.ErrorIs(t, err, errGone)
			} else if assert.ErrorIs(t, err, ErrLost); test.from == 0 {
				assert.NotErrorAs(t, err, &over)
			} else if assert.ErrorAs(t, err, &over) {
				assert.Equal(t, [2]time.Time{at(test.from), at(9)}, [2]time.Time{over.from, over.to})
			}
		})
	}
	older := rec("b", StateHeld, 6)
	older.Saves = 3
	kept, err := judge(own, w, nil, older)
	assert.NoError(t, err)
	assert.Equal(t, []any{uint64(5), at(9)}, []any{kept.Saves, kept.Bound()}, "the store has lost the latest saves")
	newer := rec("b", StateHeld, 12)
	newer.Saves = 7
	kept, err = judge(own, w, []record{newer}, newer)
	assert.NoError(t, err)
	assert.Equal(t, []any{uint64(7), at(12)}, []any{kept.Saves, kept.Bound()}, "a save was made whose answer was lost")
}

func TestRecordMayBePutBackWhileItsWindowLasts(t *testing.T) {
	r, w := rec("a", StateHeld, 3), window{to: at(3)}
	assert.True(t, r.restorable(w, at(2), span-1))
	assert.False(t, r.restorable(w, at(2), span))
	assert.False(t, r.restorable(w, at(3), 0))
}

func TestReleaseDoesNotMoveTheBoundAhead(t *testing.T) {
	assert.Equal(t, at(3), rec("a", StateHeld, 3).release(window{}, at(5), StateFree, time.Second).Bound())
}

func TestHistoryOfTheNextRecord(t *testing.T) {
	old := rec("a", StateHeld, 3)
	old.Ended, old.Forgotten = []Holding{{Token: "b", To: at(-2)}, {Token: "c", From: at(-2), To: at(0)}}, at(-5)
	next := old.take(window{from: at(3), before: at(3)}, record{Token: "d", Window: span}, clocks{own: at(3)})
	next.Saves = 9
	kept, chunk := next.succeed(old, at(-3))
	assert.Equal(t, []any{uint64(10), at(-5), append(old.Ended, old.holding())}, []any{kept.Saves, kept.Forgotten, kept.Ended})
	assert.Empty(t, chunk)
	old.Saves = 12
	kept, _ = next.succeed(old, at(-1))
	assert.Equal(t, []any{uint64(13), at(-1), []Holding{old.Ended[1], old.holding()}}, []any{kept.Saves, kept.Forgotten, kept.Ended})
	next.Forgotten = at(1)
	kept, _ = next.succeed(old, at(-1))
	assert.Equal(t, at(1), kept.Forgotten)
}

// If a change to another clock sequence is given up, the holding goes on. No entry of the history
// gets what it was, because such an entry must be the same whoever replaces the record.
func TestHoldingThatGoesOnIsNotInTheHistory(t *testing.T) {
	first := rec("a", StateHeld, 3)
	changed, _ := first.withWindow(window{seq: 1, from: at(1)}, at(4)).succeed(first, at(-9))
	for len(changed.Ended) < machine.Embedded {
		changed.Ended = append([]Holding{{Token: "b"}}, changed.Ended...)
	}
	again, chunk := changed.withWindow(window{from: first.From}, at(5)).succeed(changed, time.Time{})
	assert.Equal(t, append(slices.Clone(changed.Ended[:machine.Embedded-1]), changed.holding()), again.Ended)
	assert.Empty(t, chunk)
	assert.Equal(t, changed.Chunks, again.Chunks)
}

func TestWaitAfterALoss(t *testing.T) {
	assert.Equal(t, 3*time.Minute, healing(time.Second))
	assert.Equal(t, 31*time.Minute, healing(10*time.Minute))
	assert.Greater(t, healing(1<<62), healing(time.Hour))

	shut := door{Name: "s", Waited: waited{For: 5 * time.Second}, version: "1"}
	right, m := clocks{at(2), at(1)}, moment{}
	for why, test := range map[string]struct {
		seen         time.Duration
		c            clocks
		waited, left time.Duration // the same for a store and for a record
	}{
		"it was not seen yet":                 {-time.Hour, right, 5 * time.Second, 4 * time.Second},
		"it is too early to save":             {progress/8 - 1, right, 5 * time.Second, 4*time.Second - progress/8 + 1},
		"it is time to save":                  {progress, right, 6 * time.Second, 3 * time.Second},
		"the engine's clock is wrong":         {4 * time.Second, clocks{at(2), at(2).Add(skew + 1)}, 9 * time.Second, progress},
		"this host's clock is wrong":          {4 * time.Second, clocks{at(2).Add(skew + 1), at(2)}, 9 * time.Second, progress},
		"a clock is wrong until it is longer": {9 * time.Second, clocks{at(2).Add(skew + 1), at(2)}, 14 * time.Second, progress},
	} {
		d, left := shut.advance(test.seen, m, test.c, false, 9*time.Second)
		r, same := record{Waited: shut.Waited}.missing(test.seen, m, test.c, 9*time.Second)
		assert.Equal(t, []time.Duration{test.waited, test.waited}, []time.Duration{d.Waited.For, r.Waited.For}, why)
		assert.Equal(t, []time.Duration{test.left, test.left}, []time.Duration{left, same}, why)
		assert.False(t, d.Open, why)
	}
	d, _ := shut.advance(4*time.Second, m, right, false, 9*time.Second)
	assert.Equal(t, door{Name: "s", Open: true, Waited: waited{For: 9 * time.Second}, Healed: true, Floor: at(1), version: "1"}, d)

	floors := func(before, engine, now int) (all [2]time.Time) {
		old := record{Floor: at(before), Store: "t", Waited: waited{For: time.Minute}}
		missing, _ := old.missing(0, m, clocks{at(now), at(engine)}, time.Minute)
		return [2]time.Time{door{Name: "s", Healed: true, Floor: at(engine)}.heal(old, at(now)).Floor, missing.Floor}
	}
	for _, of := range [][3]int{{3, 2, 1}, {1, 3, 2}, {2, 1, 3}} {
		assert.Equal(t, [2]time.Time{at(3), at(3)}, floors(of[0], of[1], of[2]), "the latest of %v", of)
	}
	old := rec("a", StateHeld, 3)
	old.Store = "t"
	assert.Equal(t, at(9), door{Name: "s", Healed: true}.heal(old, at(9)).Bound(), "the record is older than the loss")
	assert.Equal(t, old, door{Name: "s"}.heal(old, at(9)), "nothing was lost")
	assert.Equal(t, old, door{Name: "t", Healed: true}.heal(old, at(9)), "the record is newer than the loss")
}

// The same host goes on with a wait by the clock that runs since it was booted; another host by
// what it sees.
func TestWaitGoesOnInTheNextProcess(t *testing.T) {
	w := waited{}.more(0, moment{at: noon, host: "h", boot: time.Hour})
	for why, test := range map[string]struct {
		seen time.Duration
		m    moment
		want time.Duration
	}{
		"the same host":           {0, moment{at: at(9), host: "h", boot: time.Hour + 5}, 5},
		"the same host, but less": {7, moment{at: at(9), host: "h", boot: time.Hour + 5}, 7},
		"a copy of the host":      {0, moment{at: at(1), host: "h", boot: 2 * time.Hour}, time.Second},
		"a copy behind":           {0, moment{at: at(-1), host: "h", boot: 2 * time.Hour}, 0},
		"another host":            {2, moment{at: at(9), host: "i", boot: 2 * time.Hour}, 2},
		"a host without a name":   {2, moment{boot: 2 * time.Hour}, 2},
	} {
		wall := map[bool]int64{true: test.m.at.UnixMilli()}[test.m.host != ""]
		assert.Equal(t, waited{For: test.want, Host: test.m.host, Boot: test.m.boot, Wall: wall}, w.more(test.seen, test.m), why)
	}
	assert.Equal(t, time.Duration(9), waited{For: 7}.more(2, moment{}).For, "no host has a name")
}

func TestLowestInstantThatMayBeStamped(t *testing.T) {
	copied := rec("a", StateHeld, 3)
	copied.Copy = true
	plainly := copied
	plainly.Layout = plain
	released := copied
	released.State = StateFree
	given := rec("c", StateFree, 3)
	given.Prior = prior{at(-1), at(5)}
	// A change to a clock sequence with an earlier bound, whose answer was lost.
	changing := rec("a", StateHeld, 3)
	changing.Bounds = append(changing.Bounds, at(1))
	changing.ClockSeq = 1
	for _, test := range []struct {
		why     string
		records []record
		dead    bool
		now     int
		most    int
		at      int // -99: the beginning of time
	}{
		{"nobody", nil, false, 9, 8, 8},
		{"it was given back", []record{rec("a", StateFree, 3)}, false, 2, 2, 2},
		{"a live holder", []record{rec("a", StateHeld, 3)}, false, 9, 9, 0},
		{"a dead holder", []record{rec("a", StateHeld, 3)}, true, 2, 2, 0},
		{"a dead holder whose bound has passed", []record{rec("a", StateHeld, 3)}, true, 3, 3, 3},
		{"a dead holder whose other bound has not passed", []record{changing}, true, 2, 2, 0},
		{"two dead holders, of whom one counts", []record{rec("a", StateHeld, 3), rec("b", StateHeld, 5)}, true, 4, 4, 0},
		{"two dead holders, of whom none counts", []record{rec("a", StateHeld, 3), rec("b", StateHeld, 4)}, true, 4, 4, 4},
		{"a holder from before", []record{given}, false, 4, 4, -1},
		{"a holder from before, whose bound has passed", []record{given}, false, 5, 5, 5},
		{"a LocalCopy", []record{plainly}, true, 9, 9, 0},
		{"a LocalCopy with clock sequences", []record{copied}, true, 9, 9, -99},
		{"a LocalCopy that was released", []record{released}, false, 9, 9, 9},
		{"a LocalCopy that was retired", []record{copied.retire(clocks{own: at(2)})}, false, 2, 2, 0},
		{"a LocalCopy that was retired, whose bound has passed", []record{copied.retire(clocks{own: at(2)})}, false, 3, 3, 3},
	} {
		got, by := lowest(test.records, at(test.now), at(test.most), func(record) bool { return test.dead })
		want := at(test.at)
		if test.at == -99 {
			want = time.Time{}
		}
		assert.Equal(t, want, got, test.why)
		assert.Equal(t, test.at == test.most, by == nil, test.why)
	}
	ended := rec("b", StateHeld, 9)
	ended.Least = at(6)
	low, _ := lowest([]record{ended, rec("a", StateHeld, 7)}, at(7), at(7), func(record) bool { return true })
	assert.Equal(t, at(6), low, "a window that has ended never counts again, also if another keeps the watermark below its end")
	assert.Equal(t, at(9), latest([]record{rec("a", StateHeld, 7), ended, changing}))
	assert.Equal(t, at(3), latest([]record{changing}))
}

// One clock that is wrong makes no live holder look dead.
func TestEnginesClockAloneTakesNobodyForDead(t *testing.T) {
	r := rec("a", StateHeld, 3)
	r.Renewed = at(0)
	for _, test := range []struct {
		own, engine int
		dead        bool
	}{{1, 1, false}, {1, 3600, false}, {3600, 1, false}, {3, 3, false}, {3, 4, true}, {3600, 3600, true}} {
		w := watch{seen: newSightings()}
		silent := w.silent(r, thisMoment(), clocks{at(test.own), at(test.engine)})
		assert.Equal(t, !test.dead, r.live(silent), "%+v", test)
	}
}
