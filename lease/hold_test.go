//go:build go1.25

package lease

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// replayed is a line that answers from a log. When the log is over, it keeps the request that has
// no answer, and answers errOpen from then on, so that what asks leaves by its path for errors.
type replayed struct {
	begun   book.Reading
	may     book.Floor
	log     []reply
	next    int
	open    *query
	asked   []string
	wasBack bool
}

// reply is an answer of a store, and what the clocks read when it came.
type reply struct {
	entries []Entry
	err     error
	reading book.Reading
	floor   time.Time // of the generator
}

var errOpen = errors.New("there is no answer yet")

func (r *replayed) ask(q query) reply {
	if r.open == nil && r.next < len(r.log) {
		r.asked = append(r.asked, strings.TrimSpace(q.do+" "+q.key))
		r.next++
		return r.log[r.next-1]
	}
	if r.open == nil {
		r.open = &q
	}
	return reply{err: errOpen}
}

func (r *replayed) one(q query) (e Entry, err error) {
	a := r.ask(q)
	if len(a.entries) > 0 {
		e = a.entries[0]
	}
	return e, a.err
}

func (r *replayed) Get(key string) (Entry, error) { return r.one(query{do: "get", key: key}) }
func (r *replayed) Put(key, old string, value []byte) (Entry, error) {
	return r.one(query{do: "put", key: key, old: old, value: value})
}
func (r *replayed) Delete(key, old string) error {
	return r.ask(query{do: "delete", key: key, old: old}).err
}
func (r *replayed) List(prefix string) ([]Entry, error) {
	a := r.ask(query{do: "list", key: prefix})
	return a.entries, a.err
}
func (r *replayed) Rest(d time.Duration) error {
	return r.ask(query{do: "rest", key: d.String()}).err
}
func (r *replayed) Engine() (time.Time, error)               { return time.Time{}, nil }
func (r *replayed) Trace() (of string, told bool, err error) { return "", false, nil }
func (r *replayed) Floor() book.Floor                        { return r.may }
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

// holdsSince0 returns a hold with the window from 0 to 3 that was saved at 0, and its record as it
// is stored.
func holdsSince0() (*hold, Entry) {
	r := rec("a", StateHeld, 3)
	r.ClockSeq, r.From, r.Store = 0, at(0), "store"
	value, _ := r.Encode()
	return &hold{rules: rules{layout: seqs, window: span, maxLeap: time.Hour, history: time.Hour}, own: r, granted: true,
		window: protocol.Window{From: at(0), To: at(3), Before: at(0)}, heard: heard{renewed: at(0), read: at(0), at: at(0)}}, entry(r, value)
}

func entry(r protocol.Record, value []byte) Entry {
	return Entry{Key: book.RecordKey(r.Worker), Version: r.Version, Value: value}
}

// What a holder does depends on what it knows and on the answers that it gets.
func TestRenewalByItsAnswers(t *testing.T) {
	own, is := holdsSince0()
	other := rec("b", StateHeld, 9)
	other.Worker, other.From, other.Saves = own.own.Worker, at(3), 6
	value, _ := other.Encode()
	saved := Entry{Version: "6"}
	failed := errors.New("the store is away")
	for name, test := range map[string]struct {
		at      int
		answers []reply
		asks    string
		is      error
		doubt   doubt
		to      int
	}{
		"it is saved":                      {1, []reply{{entries: []Entry{saved}}}, "put", nil, sure, 4},
		"it has no answer":                 {1, []reply{{err: failed}}, "put", failed, unsure, 3},
		"somebody was quicker":             {1, []reply{{err: ErrConflict}, {entries: []Entry{entry(other, value)}}}, "put get", ErrLost, unsure, 3},
		"the record is its own":            {1, []reply{{err: ErrConflict}, {entries: []Entry{is}}, {entries: []Entry{saved}}}, "put get put", nil, sure, 4},
		"the record is gone":               {1, []reply{{err: ErrConflict}, {}, {}, {entries: []Entry{saved}}}, "put get put put", errRestored, sure, 3},
		"the record is gone for too long":  {3, []reply{{err: ErrConflict}, {}}, "put get", ErrLost, unsure, 3},
		"it is put back without an answer": {1, []reply{{err: ErrConflict}, {}, {}, {err: failed}}, "put get put put", failed, returning, 3},
		"it cannot be read":                {1, []reply{{err: ErrConflict}, {err: ErrBadRecord}}, "put get", ErrLost, unsure, 3},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := holdsSince0()
			s := &replayed{begun: reads(test.at), may: book.Floor{Granted: true, Next: at(1)}, log: test.answers}
			for i := range s.log {
				s.log[i].reading = reads(test.at)
			}
			err := h.renew(s, false)
			require.ErrorIs(t, err, test.is)
			require.Nil(t, s.open, "it asks no more than this")
			assert.Equal(t, test.asks, strings.Join(verbs(s.asked), " "))
			assert.Equal(t, test.doubt, h.doubt)
			assert.Equal(t, at(test.to), h.window.To)
			assert.Equal(t, errors.Is(err, errRestored), s.wasBack)
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
