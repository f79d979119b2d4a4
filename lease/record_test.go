//go:build go1.25

package lease

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRecordThatNobodyCanHaveSavedIsRefused(t *testing.T) {
	valid := func() record {
		return record{Worker: 1<<both.WorkerBits - 1, Layout: both, Saves: 1, Token: "a", State: StateSpent, Reuse: ReuseOnce, Window: 1,
			ClockSeq: 1<<both.ClockSeqBits - 1, Bounds: make([]time.Time, 1<<both.ClockSeqBits)}
	}
	read := func(key int, r record) error {
		value, err := r.encode()
		require.NoError(t, err)
		_, err = decodeRecord(key, Entry{Key: recordKey(key), Version: "1", Value: value})
		return err
	}
	require.NoError(t, read(valid().Worker, valid()))
	for why, change := range map[string]func(*record){
		"no layout":                               func(r *record) { r.Layout.Unit = 0 },
		"no state":                                func(r *record) { r.State = "" },
		"a state that is only shown":              func(r *record) { r.State = StateDead },
		"no save":                                 func(r *record) { r.Saves = 0 },
		"no token":                                func(r *record) { r.Token = "" },
		"a reuse that is unknown":                 func(r *record) { r.Reuse = ReuseOnce + 1 },
		"no window":                               func(r *record) { r.Window = 0 },
		"a negative window":                       func(r *record) { r.Window = -1 },
		"a negative clock sequence":               func(r *record) { r.ClockSeq = -1 },
		"a clock sequence without a bound":        func(r *record) { r.ClockSeq, r.Bounds = 1, r.Bounds[:1] },
		"no bound":                                func(r *record) { r.ClockSeq, r.Bounds = 0, nil },
		"more bounds than the layout's":           func(r *record) { r.Bounds = append(r.Bounds, time.Time{}) },
		"a worker ID that the layout lacks":       func(r *record) { r.Worker++ },
		"a negative worker ID":                    func(r *record) { r.Worker = -1 },
		"lost, a worker ID that the layout lacks": func(r *record) { r.State = StateLost; r.Worker++ },
	} {
		r := valid()
		change(&r)
		assert.ErrorIs(t, read(r.Worker, r), ErrBadRecord, why)
	}
	for _, state := range []State{StateHeld, StateFree, StateSpent, StateLost} {
		r := valid()
		r.State = state
		assert.NoError(t, read(r.Worker, r), state)
		assert.ErrorIs(t, read(r.Worker-1, r), ErrBadRecord, "%s: its key names another worker ID", state)
	}
	assert.NoError(t, read(3, record{Worker: 3, Layout: both, State: StateLost}), "nothing is known of a lost record")
}

// Holders shows who no longer renews as dead: by the engine's clock or, if it has none, when the
// bound has passed.
func TestHoldersShowsWhoIsDead(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		var all []*holder
		for n := range 4 {
			all = append(all, mustAcquire(t, m, fleet, clockAt(0), named(fmt.Sprint(n))))
		}
		dead, free, lost := all[0], all[1], all[2]
		states := func() map[int]State {
			synctest.Wait()
			holders, err := Holders(t.Context(), m)
			require.NoError(t, err)
			of := map[int]State{}
			for _, h := range holders {
				of[h.Worker] = h.State
				assert.Equal(t, fleet, h.Layout)
			}
			return of
		}
		want := map[int]State{}
		for _, h := range all {
			want[h.Worker()] = StateHeld
		}
		require.NoError(t, free.Release(t.Context()))
		want[free.Worker()] = StateFree
		stopRenewing(dead.Lease)
		stopRenewing(lost.Lease)
		m.set(func() { delete(m.entries, recordKey(lost.Worker())) })
		want[lost.Worker()] = StateLost
		time.Sleep(time.Until(dead.Grant().To))
		assert.Equal(t, want, states())
		time.Sleep(time.Nanosecond)
		want[dead.Worker()] = StateDead
		assert.Equal(t, want, states())
	})
}

func TestRecordWithAWindowThatNobodyHasIsBad(t *testing.T) {
	r := rec("a", StateHeld, 3)
	r.Window = MaxWindow
	assert.NoError(t, r.validate())
	r.Window++
	assert.ErrorIs(t, r.validate(), ErrBadRecord)
}
