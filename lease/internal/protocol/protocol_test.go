//go:build go1.25

package protocol

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// What no story of package lease reaches.

const span = 3 * time.Second

var (
	plain = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Millisecond, TimeBits: 41, SequenceBits: 4}
	seqs  = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Millisecond, TimeBits: 41, ClockSeqBits: 2, SequenceBits: 4}
	both  = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 8, ClockSeqBits: 2, SequenceBits: 4}
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// at returns an instant that is s seconds after noon.
func at(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }

// rec returns a record of worker ID 0 with this bound, in a layout with clock sequences.
func rec(token string, s State, bound int) Record {
	return Record{Layout: seqs, Holder: Holder{Token: token, Owner: token, WindowLength: span}, State: s, Saves: 5,
		Bounds: []time.Time{at(bound)}, From: at(0), Least: at(0), Version: "5"}
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
		r := Record{Layout: seqs}
		for _, s := range test.bounds {
			r.Bounds = append(r.Bounds, instant(s))
		}
		seq, from := r.Start(at(0))
		assert.Equal(t, test.seq, seq, why)
		assert.Equal(t, instant(test.from), from, why)
	}
}

func TestRecordIsLiveForAWindowAfterRenewal(t *testing.T) {
	for idle, live := range map[time.Duration]bool{0: true, span: true, span + 1: false, -span: true} {
		assert.Equal(t, live, rec("a", StateHeld, 3).Live(idle), "%v", idle)
		assert.False(t, rec("a", StateFree, 3).Live(idle))
	}
}

func TestWindowBeginsAtTheBoundAndAtTheWatermark(t *testing.T) {
	assert.Equal(t, at(2), Window{From: at(2), Above: at(1)}.Begin())
	assert.Equal(t, at(2), Window{From: at(1), Above: at(2)}.Begin())
}

// The clock may be set back after the worker ID was chosen, and the window may begin later than
// now.
func TestTakeKeepsTheBoundAndGoesNoFurtherThanAWindow(t *testing.T) {
	old := rec("a", StateHeld, 9)
	old.NoFloor, old.Waited, old.Host, old.Reuse, old.Store = true, Waited{For: span}, "h", ReuseKeep, "s"
	by := Holder{Token: "b", Owner: "b", Host: "i", PID: 7, WindowLength: span, Store: "t", Offline: true}
	next := old.Take(Window{From: at(9), Before: at(9)}, by, at(9), Clocks{Own: at(1)})
	assert.Equal(t, at(9), next.Bound())
	assert.Equal(t, at(10), old.Take(Window{From: at(9), Before: at(9)}, by, at(9), Clocks{Own: at(7)}).Bound())
	want := Record{Layout: seqs, State: StateHeld, Saves: 5, Holder: by,
		Bounds: []time.Time{at(9)}, From: at(9), To: at(9), Least: at(9), Prior: Prior{at(0), at(9)}, Version: "5"}
	want.Reuse = ReuseKeep
	assert.Equal(t, want, next)
	assert.Zero(t, rec("a", StateFree, 9).Take(Window{}, by, at(9), Clocks{Own: at(1)}).Prior, "who gave the worker ID back stamps nothing")
	assert.Zero(t, old.Take(Window{}, by, at(9), Clocks{at(9), at(9)}).Prior, "its window has ended")
	for _, c := range []Clocks{{at(8), at(9)}, {at(9), at(8)}} {
		assert.Equal(t, Prior{at(0), at(9)}, old.Take(Window{}, by, at(9), c).Prior, "its window may be open: %v", c)
	}
	old.Prior = Prior{at(-3), at(8)}
	assert.Equal(t, Prior{at(-3), at(9)}, old.Take(Window{}, by, at(9), Clocks{Own: at(7)}).Prior)
	assert.Equal(t, Prior{at(0), at(9)}, old.Take(Window{}, by, at(9), Clocks{Own: at(8)}).Prior, "a window that has ended is not remembered")
	old.Prior = Prior{}
	undone := next.Undo(rec("a", StateFree, 9), Window{From: at(10), Before: at(9)})
	want.State, want.Owner, want.Reuse = StateFree, "a", ReuseAny
	assert.Equal(t, want, undone, "the worker ID goes back, and earlier holders may still be up")
}

func TestJudgeOfARecordThatWasFound(t *testing.T) {
	own, w := rec("b", StateHeld, 9), Window{From: at(3), To: at(9)}
	own.Ended = []Holding{{Token: "a", To: at(3)}}
	for why, test := range map[string]struct {
		change func(*Record)
		gone   bool
		from   int // of the overlap; 0 if there is none
	}{
		"an earlier holder has put its record back": {func(r *Record) { r.Token, r.Bounds = "a", []time.Time{at(3)} }, true, 0},
		"and has moved its bound since":             {func(r *Record) { r.Token, r.Bounds = "a", []time.Time{at(4)} }, false, 3},
		"and has saved more often":                  {func(r *Record) { r.Token, r.Bounds, r.Saves = "a", []time.Time{at(3)}, 6 }, false, 3},
		"and has released it":                       {func(r *Record) { r.Token, r.Bounds, r.State = "a", []time.Time{at(3)}, StateFree }, false, 3},
		"a holder that is no earlier one":           {func(r *Record) { r.Token, r.Bounds = "c", []time.Time{at(2)} }, false, 3},
		"a later holder":                            {func(r *Record) { r.Token, r.From, r.Bounds = "c", at(9), []time.Time{at(12)} }, false, 0},
		"a holder of the same time":                 {func(r *Record) { r.Token, r.From, r.Bounds = "c", at(1), []time.Time{at(12)} }, false, 3},
		"a holder of the time from the middle on":   {func(r *Record) { r.Token, r.From, r.Bounds = "c", at(5), []time.Time{at(12)} }, false, 5},
		"a holder of another clock sequence": {func(r *Record) {
			r.Token, r.From, r.ClockSeq, r.Bounds = "c", at(5), 1, []time.Time{at(9), at(12)}
		}, false, 0},
		"and the bound of this one has gone back": {func(r *Record) {
			r.Token, r.From, r.ClockSeq, r.Bounds = "c", at(5), 1, []time.Time{at(6), at(12)}
		}, false, 6},
		"a later holder, and before it one of the same time": {func(r *Record) {
			r.Token, r.From, r.Bounds, r.Ended = "c", at(12), []time.Time{at(15)}, []Holding{{Token: "d", From: at(6), To: at(12)}}
		}, false, 6},
	} {
		t.Run(why, func(t *testing.T) {
			found := own
			found.Ended = nil
			test.change(&found)
			_, err := Judge(own, w, nil, found)
			over := new(Overlap)
			if test.gone {
				assert.ErrorIs(t, err, ErrGone)
			} else if assert.ErrorIs(t, err, ErrLost); test.from == 0 {
				assert.NotErrorAs(t, err, &over)
			} else if assert.ErrorAs(t, err, &over) {
				assert.Equal(t, [2]time.Time{at(test.from), at(9)}, [2]time.Time{over.From, over.To})
			}
		})
	}
	older := rec("b", StateHeld, 6)
	older.Saves = 3
	kept, err := Judge(own, w, nil, older)
	assert.NoError(t, err)
	assert.Equal(t, []any{uint64(5), at(9)}, []any{kept.Saves, kept.Bound()}, "the store has lost the latest saves")
	newer := rec("b", StateHeld, 12)
	newer.Saves = 7
	kept, err = Judge(own, w, []Record{newer}, newer)
	assert.NoError(t, err)
	assert.Equal(t, []any{uint64(7), at(12)}, []any{kept.Saves, kept.Bound()}, "a save was made whose answer was lost")
}

func TestRecordMayBePutBackWhileItsWindowLasts(t *testing.T) {
	r, w := rec("a", StateHeld, 3), Window{To: at(3)}
	assert.True(t, r.Restorable(w, at(2), span-1))
	assert.False(t, r.Restorable(w, at(2), span))
	assert.False(t, r.Restorable(w, at(3), 0))
}

func TestReleaseDoesNotMoveTheBoundAhead(t *testing.T) {
	assert.Equal(t, at(3), rec("a", StateHeld, 3).Release(Window{}, at(5), StateFree, time.Second).Bound())
}

func TestHistoryOfTheNextRecord(t *testing.T) {
	old := rec("a", StateHeld, 3)
	old.Ended, old.Forgotten = []Holding{{Token: "b", To: at(-2)}, {Token: "c", From: at(-2), To: at(0)}}, at(-5)
	next := old.Take(Window{From: at(3), Before: at(3)}, Holder{Token: "d", WindowLength: span}, time.Time{}, Clocks{Own: at(3)})
	next.Saves = 9
	kept, chunk := next.WithHistoryOf(old, at(-3))
	assert.Equal(t, []any{uint64(10), at(-5), append(old.Ended, old.Holding())}, []any{kept.Saves, kept.Forgotten, kept.Ended})
	assert.Empty(t, chunk)
	old.Saves = 12
	kept, _ = next.WithHistoryOf(old, at(-1))
	assert.Equal(t, []any{uint64(13), at(-1), []Holding{old.Ended[1], old.Holding()}}, []any{kept.Saves, kept.Forgotten, kept.Ended})
	next.Forgotten = at(1)
	kept, _ = next.WithHistoryOf(old, at(-1))
	assert.Equal(t, at(1), kept.Forgotten)
}

// If a change to another clock sequence is given up, the holding goes on. No entry of the history
// gets what it was, because such an entry must be the same whoever replaces the record.
func TestHoldingThatGoesOnIsNotInTheHistory(t *testing.T) {
	first := rec("a", StateHeld, 3)
	changed, _ := first.withWindow(Window{Seq: 1, From: at(1)}, at(4)).WithHistoryOf(first, at(-9))
	for len(changed.Ended) < MaxEnded {
		changed.Ended = append([]Holding{{Token: "b"}}, changed.Ended...)
	}
	again, chunk := changed.withWindow(Window{From: first.From}, at(5)).WithHistoryOf(changed, time.Time{})
	assert.Equal(t, append(slices.Clone(changed.Ended[:MaxEnded-1]), changed.Holding()), again.Ended)
	assert.Empty(t, chunk)
	assert.Equal(t, changed.Chunks, again.Chunks)
}

func TestWaitAfterALoss(t *testing.T) {
	assert.Equal(t, 3*time.Minute, Healing(time.Second))
	assert.Equal(t, 31*time.Minute, Healing(10*time.Minute))
	assert.Greater(t, Healing(1<<62), Healing(time.Hour))

	shut := Door{Name: "s", Waited: Waited{For: 5 * time.Second}, Version: "1"}
	right, m := Clocks{at(2), at(1)}, Moment{}
	for why, test := range map[string]struct {
		seen         time.Duration
		c            Clocks
		waited, left time.Duration // the same for a store and for a record
	}{
		"it was not seen yet":                 {-time.Hour, right, 5 * time.Second, 4 * time.Second},
		"it is too early to save":             {Progress/8 - 1, right, 5 * time.Second, 4*time.Second - Progress/8 + 1},
		"it is time to save":                  {Progress, right, 6 * time.Second, 3 * time.Second},
		"the engine's clock is wrong":         {4 * time.Second, Clocks{at(2), at(2).Add(Skew + 1)}, 9 * time.Second, Progress},
		"this host's clock is wrong":          {4 * time.Second, Clocks{at(2).Add(Skew + 1), at(2)}, 9 * time.Second, Progress},
		"a clock is wrong until it is longer": {9 * time.Second, Clocks{at(2).Add(Skew + 1), at(2)}, 14 * time.Second, Progress},
	} {
		d, left := shut.Advance(test.seen, m, test.c, false, 9*time.Second)
		r, same := Record{Waited: shut.Waited}.Missing(test.seen, m, test.c, 9*time.Second)
		assert.Equal(t, []time.Duration{test.waited, test.waited}, []time.Duration{d.Waited.For, r.Waited.For}, why)
		assert.Equal(t, []time.Duration{test.left, test.left}, []time.Duration{left, same}, why)
		assert.False(t, d.Open, why)
	}
	d, _ := shut.Advance(4*time.Second, m, right, false, 9*time.Second)
	assert.Equal(t, Door{Name: "s", Open: true, Waited: Waited{For: 9 * time.Second}, Healed: true, NotBefore: at(1), Version: "1"}, d)

	floors := func(before, engine, now int) (all [2]time.Time) {
		old := Record{NotBefore: at(before), Holder: Holder{Store: "t"}, Waited: Waited{For: time.Minute}}
		missing, _ := old.Missing(0, m, Clocks{at(now), at(engine)}, time.Minute)
		return [2]time.Time{Door{Name: "s", Healed: true, NotBefore: at(engine)}.Raise(old, at(now)).NotBefore, missing.NotBefore}
	}
	for _, of := range [][3]int{{3, 2, 1}, {1, 3, 2}, {2, 1, 3}} {
		assert.Equal(t, [2]time.Time{at(3), at(3)}, floors(of[0], of[1], of[2]), "the latest of %v", of)
	}
	old := rec("a", StateHeld, 3)
	old.Store = "t"
	assert.Equal(t, at(9), Door{Name: "s", Healed: true}.Raise(old, at(9)).Bound(), "the record is older than the loss")
	assert.Equal(t, old, Door{Name: "s"}.Raise(old, at(9)), "nothing was lost")
	assert.Equal(t, old, Door{Name: "t", Healed: true}.Raise(old, at(9)), "the record is newer than the loss")
}

// The same host goes on with a wait by the clock that runs since it was booted; another host by
// what it sees.
func TestWaitGoesOnInTheNextProcess(t *testing.T) {
	w := Waited{}.More(0, Moment{At: noon, Host: "h", Boot: time.Hour})
	for why, test := range map[string]struct {
		seen time.Duration
		m    Moment
		want time.Duration
	}{
		"the same host":           {0, Moment{At: at(9), Host: "h", Boot: time.Hour + 5}, 5},
		"the same host, but less": {7, Moment{At: at(9), Host: "h", Boot: time.Hour + 5}, 7},
		"a copy of the host":      {0, Moment{At: at(1), Host: "h", Boot: 2 * time.Hour}, time.Second},
		"a copy behind":           {0, Moment{At: at(-1), Host: "h", Boot: 2 * time.Hour}, 0},
		"another host":            {2, Moment{At: at(9), Host: "i", Boot: 2 * time.Hour}, 2},
		"a host without a name":   {2, Moment{Boot: 2 * time.Hour}, 2},
	} {
		wall := map[bool]int64{true: test.m.At.UnixMilli()}[test.m.Host != ""]
		assert.Equal(t, Waited{For: test.want, Host: test.m.Host, Boot: test.m.Boot, Wall: wall}, w.More(test.seen, test.m), why)
	}
	assert.Equal(t, time.Duration(9), Waited{For: 7}.More(2, Moment{}).For, "no host has a name")
}

func TestLowestInstantThatMayBeStamped(t *testing.T) {
	copied := rec("a", StateHeld, 3)
	copied.Offline = true
	plainly := copied
	plainly.Layout = plain
	released := copied
	released.State = StateFree
	given := rec("c", StateFree, 3)
	given.Prior = Prior{at(-1), at(5)}
	// A change to a clock sequence with an earlier bound, whose answer was lost.
	changing := rec("a", StateHeld, 3)
	changing.Bounds = append(changing.Bounds, at(1))
	changing.ClockSeq = 1
	for _, test := range []struct {
		why     string
		records []Record
		dead    bool
		now     int
		most    int
		at      int // -99: the beginning of time
	}{
		{"nobody", nil, false, 9, 8, 8},
		{"it was given back", []Record{rec("a", StateFree, 3)}, false, 2, 2, 2},
		{"a live holder", []Record{rec("a", StateHeld, 3)}, false, 9, 9, 0},
		{"a dead holder", []Record{rec("a", StateHeld, 3)}, true, 2, 2, 0},
		{"a dead holder whose bound has passed", []Record{rec("a", StateHeld, 3)}, true, 3, 3, 3},
		{"a dead holder whose other bound has not passed", []Record{changing}, true, 2, 2, 0},
		{"two dead holders, of whom one counts", []Record{rec("a", StateHeld, 3), rec("b", StateHeld, 5)}, true, 4, 4, 0},
		{"two dead holders, of whom none counts", []Record{rec("a", StateHeld, 3), rec("b", StateHeld, 4)}, true, 4, 4, 4},
		{"a holder from before", []Record{given}, false, 4, 4, -1},
		{"a holder from before, whose bound has passed", []Record{given}, false, 5, 5, 5},
		{"a LocalCopy", []Record{plainly}, true, 9, 9, 0},
		{"a LocalCopy with clock sequences", []Record{copied}, true, 9, 9, -99},
		{"a LocalCopy that was released", []Record{released}, false, 9, 9, 9},
		{"a LocalCopy that was retired", []Record{copied.Retire(Clocks{Own: at(2)})}, false, 2, 2, 0},
		{"a LocalCopy that was retired, whose bound has passed", []Record{copied.Retire(Clocks{Own: at(2)})}, false, 3, 3, 3},
	} {
		got, by := Lowest(test.records, at(test.now), at(test.most), func(Record) bool { return test.dead })
		want := at(test.at)
		if test.at == -99 {
			want = time.Time{}
		}
		assert.Equal(t, want, got, test.why)
		assert.Equal(t, test.at == test.most, by == nil, test.why)
	}
	ended := rec("b", StateHeld, 9)
	ended.Least = at(6)
	low, _ := Lowest([]Record{ended, rec("a", StateHeld, 7)}, at(7), at(7), func(Record) bool { return true })
	assert.Equal(t, at(6), low, "a window that has ended never counts again, also if another keeps the watermark below its end")
	assert.Equal(t, at(9), Latest([]Record{rec("a", StateHeld, 7), ended, changing}))
	assert.Equal(t, at(3), Latest([]Record{changing}))
}

func TestRecordThatNobodyCanHaveSavedIsRefused(t *testing.T) {
	valid := func() Record {
		return Record{Worker: 1<<both.WorkerBits - 1, Layout: both, Saves: 1, State: StateSpent, Holder: Holder{Token: "a", Reuse: ReuseOnce, WindowLength: 1},
			ClockSeq: 1<<both.ClockSeqBits - 1, Bounds: make([]time.Time, 1<<both.ClockSeqBits)}
	}
	read := func(key int, r Record) error {
		value, err := r.Encode()
		require.NoError(t, err)
		_, err = DecodeRecord(key, driver.Entry{Key: "worker", Version: "1", Value: value})
		return err
	}
	require.NoError(t, read(valid().Worker, valid()))
	for why, change := range map[string]func(*Record){
		"no layout":                               func(r *Record) { r.Layout.Unit = 0 },
		"no state":                                func(r *Record) { r.State = "" },
		"a state that is only shown":              func(r *Record) { r.State = StateDead },
		"no save":                                 func(r *Record) { r.Saves = 0 },
		"no token":                                func(r *Record) { r.Token = "" },
		"a reuse that is unknown":                 func(r *Record) { r.Reuse = ReuseOnce + 1 },
		"no window":                               func(r *Record) { r.WindowLength = 0 },
		"a negative window":                       func(r *Record) { r.WindowLength = -1 },
		"a negative clock sequence":               func(r *Record) { r.ClockSeq = -1 },
		"a clock sequence without a bound":        func(r *Record) { r.ClockSeq, r.Bounds = 1, r.Bounds[:1] },
		"no bound":                                func(r *Record) { r.ClockSeq, r.Bounds = 0, nil },
		"more bounds than the layout's":           func(r *Record) { r.Bounds = append(r.Bounds, time.Time{}) },
		"a worker ID that the layout lacks":       func(r *Record) { r.Worker++ },
		"a negative worker ID":                    func(r *Record) { r.Worker = -1 },
		"lost, a worker ID that the layout lacks": func(r *Record) { r.State = StateLost; r.Worker++ },
	} {
		r := valid()
		change(&r)
		assert.ErrorIs(t, read(r.Worker, r), driver.ErrBadRecord, why)
	}
	for _, state := range []State{StateHeld, StateFree, StateSpent, StateLost} {
		r := valid()
		r.State = state
		assert.NoError(t, read(r.Worker, r), state)
		assert.ErrorIs(t, read(r.Worker-1, r), driver.ErrBadRecord, "%s: its key names another worker ID", state)
	}
	assert.NoError(t, read(3, Record{Worker: 3, Layout: both, State: StateLost}), "nothing is known of a lost record")
}

func TestRecordWithAWindowThatNobodyHasIsBad(t *testing.T) {
	r := rec("a", StateHeld, 3)
	r.WindowLength = driver.MaxWindow
	assert.NoError(t, r.validate())
	r.WindowLength++
	assert.ErrorIs(t, r.validate(), driver.ErrBadRecord)
}
