//go:build go1.25

package tenure

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

var seqs = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Millisecond, TimeBits: 41, ClockSeqBits: 2, SequenceBits: 4}

// at returns an instant that is s seconds after noon.
func at(s int) time.Time { return time.Date(2026, 11, 21, 12, 0, s, 0, time.UTC) }

// rec returns the record of a holder with this bound.
func rec(token string, bound int) protocol.Record {
	return protocol.Record{Layout: seqs, State: protocol.StateHeld, Saves: 5,
		Holder: protocol.Holder{Token: token, Owner: token, WindowLength: 3 * time.Second},
		Bounds: []time.Time{at(bound)}, From: at(0), Least: at(0), Version: "5"}
}

// replayed is a line that answers from a log. When the log is over, it keeps the request that has
// no answer, and answers errOpen from then on, so that what asks leaves by its path for errors.
type replayed struct {
	begun   book.Reading
	may     book.Unstamped
	log     []reply
	next    int
	open    bool
	asked   []string
	wasBack bool
}

// reply is an answer of a store, and what the clocks read when it came.
type reply struct {
	entries []driver.Entry
	err     error
	reading book.Reading
}

var errOpen = errors.New("there is no answer yet")

func (r *replayed) ask(do, key string) reply {
	if !r.open && r.next < len(r.log) {
		r.asked = append(r.asked, strings.TrimSpace(do+" "+key))
		r.next++
		return r.log[r.next-1]
	}
	r.open = true
	return reply{err: errOpen}
}

func (r *replayed) one(do, key string) (e driver.Entry, err error) {
	a := r.ask(do, key)
	if len(a.entries) > 0 {
		e = a.entries[0]
	}
	return e, a.err
}

func (r *replayed) Get(key string) (driver.Entry, error) { return r.one("get", key) }
func (r *replayed) Put(key, old string, value []byte) (driver.Entry, error) {
	return r.one("put", key)
}
func (r *replayed) Delete(key, old string) error {
	return r.ask("delete", key).err
}
func (r *replayed) List(prefix string) ([]driver.Entry, error) {
	a := r.ask("list", prefix)
	return a.entries, a.err
}
func (r *replayed) Rest(d time.Duration) error {
	return r.ask("rest", d.String()).err
}
func (r *replayed) Engine() (time.Time, error)               { return time.Time{}, nil }
func (r *replayed) Trace() (of string, told bool, err error) { return "", false, nil }
func (r *replayed) Unstamped() book.Unstamped                { return r.may }
func (r *replayed) Away() error                              { return nil }
func (r *replayed) Restored(int)                             { r.wasBack = true }
func (r *replayed) Read() book.Reading {
	if r.next > 0 {
		return r.log[r.next-1].reading
	}
	return r.begun
}

// reads returns the reading of clocks that are right.
func reads(seconds int) book.Reading {
	return book.Reading{Own: at(seconds), Moment: protocol.Moment{At: at(seconds)}}
}

// heldSince0 returns a tenure with the window from 0 to 3 that was saved at 0, and its record as it
// is stored.
func heldSince0() (*Tenure, driver.Entry) {
	r := rec("a", 3)
	r.ClockSeq, r.From, r.Store = 0, at(0), "store"
	value, _ := r.Encode()
	return &Tenure{Rules: Rules{Layout: seqs, WindowLength: 3 * time.Second, MaxLeap: time.Hour, History: time.Hour}, Record: r, Granted: true,
		Window: protocol.Window{From: at(0), To: at(3), Before: at(0)}, Heard: Heard{Renewed: at(0), Read: at(0), At: at(0)}}, entry(r, value)
}

func entry(r protocol.Record, value []byte) driver.Entry {
	return driver.Entry{Key: book.RecordKey(r.Worker), Version: r.Version, Value: value}
}

// What a holder does depends on what it knows and on the answers that it gets.
func TestRenewalByItsAnswers(t *testing.T) {
	own, is := heldSince0()
	other := rec("b", 9)
	other.Worker, other.From, other.Saves = own.Record.Worker, at(3), 6
	value, _ := other.Encode()
	saved := driver.Entry{Version: "6"}
	failed := errors.New("the store is away")
	for name, test := range map[string]struct {
		at      int
		answers []reply
		asks    string
		is      error
		doubt   Doubt
		to      int
	}{
		"it is saved":                      {1, []reply{{entries: []driver.Entry{saved}}}, "put", nil, Sure, 4},
		"it has no answer":                 {1, []reply{{err: failed}}, "put", failed, unsure, 3},
		"somebody was quicker":             {1, []reply{{err: driver.ErrConflict}, {entries: []driver.Entry{entry(other, value)}}}, "put get", protocol.ErrLost, unsure, 3},
		"the record is its own":            {1, []reply{{err: driver.ErrConflict}, {entries: []driver.Entry{is}}, {entries: []driver.Entry{saved}}}, "put get put", nil, Sure, 4},
		"the record is gone":               {1, []reply{{err: driver.ErrConflict}, {}, {}, {entries: []driver.Entry{saved}}}, "put get put put", ErrRestored, Sure, 3},
		"the record is gone for too long":  {3, []reply{{err: driver.ErrConflict}, {}}, "put get", protocol.ErrLost, unsure, 3},
		"it is put back without an answer": {1, []reply{{err: driver.ErrConflict}, {}, {}, {err: failed}}, "put get put put", failed, returning, 3},
		"it cannot be read":                {1, []reply{{err: driver.ErrConflict}, {err: driver.ErrBadRecord}}, "put get", protocol.ErrLost, unsure, 3},
	} {
		t.Run(name, func(t *testing.T) {
			held, _ := heldSince0()
			s := &replayed{begun: reads(test.at), may: book.Unstamped{Granted: true, Next: at(1)}, log: test.answers}
			for i := range s.log {
				s.log[i].reading = reads(test.at)
			}
			err := held.Renew(s, false)
			require.ErrorIs(t, err, test.is)
			require.False(t, s.open, "it asks no more than this")
			assert.Equal(t, test.asks, strings.Join(verbs(s.asked), " "))
			assert.Equal(t, test.doubt, held.Doubt)
			assert.Equal(t, at(test.to), held.Window.To)
			assert.Equal(t, errors.Is(err, ErrRestored), s.wasBack)
		})
	}
}

func verbs(asked []string) (verbs []string) {
	for _, a := range asked {
		verb, _, _ := strings.Cut(a, " ")
		verbs = append(verbs, verb)
	}
	return verbs
}

// A store that goes back to an older watermark does not let a holder begin below the one it saw.
func TestHolderBeginsAboveWhatItSawOfAWatermarkThatFell(t *testing.T) {
	for stored, want := range map[int]int{1: 5, 9: 9} {
		value := []byte(`{"proposed":"` + at(stored).Format(time.RFC3339) + `","published":"` + at(1).Format(time.RFC3339) + `"}`)
		s := &replayed{begun: reads(2), log: []reply{{entries: []driver.Entry{{Key: book.WatermarkKey, Version: "7", Value: value}}}}}
		above, passed, err := Above(s, protocol.Door{}, rec("a", 3), time.Time{}, at(5))
		require.NoError(t, err)
		assert.Equal(t, at(want), above)
		assert.Equal(t, at(want), passed)
	}
}
