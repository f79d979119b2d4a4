//go:build unix

package servertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// History checks what a store keeps of what is replaced. open opens one more client of
// a store that is empty.
func History(t *testing.T, open func() lease.Historian) {
	t.Helper()
	h := &history{T: t, stores: []lease.Historian{open(), open(), open(), open()}, version: map[int]uint64{}}
	h.keeps()
	h.replacesTheSame()
	h.forgets()
	h.isWholeOrNot()
}

type history struct {
	*testing.T
	stores  []lease.Historian
	version map[int]uint64
}

func (h *history) record(worker int) lease.Record {
	return lease.Record{
		Worker: worker, Version: h.version[worker] + 1, Token: "new", State: lease.Held, Layout: snowflake.DefaultLayout(),
		Bounds: []time.Time{time.Unix(2e9, 0)}, Window: time.Second,
	}
}

// save saves the next record of a holding's worker ID.
func (h *history) save(ended lease.Holding, forget time.Time) {
	h.Helper()
	if _, err := h.stores[0].SaveEnding(h.Context(), h.record(ended.Worker), ended, forget); err != nil {
		h.Fatalf("SaveEnding: %v", err)
	}
	h.version[ended.Worker]++
}

// holds checks what is kept of a worker ID.
func (h *history) holds(what string, worker int, want ...lease.Holding) {
	h.Helper()
	for i, s := range h.stores[:2] {
		kept, err := s.History(h.Context(), worker)
		if err != nil {
			h.Fatalf("%s: History: %v", what, err)
		}
		text := func(all []lease.Holding) string {
			var lines []string
			for _, k := range all {
				k.From, k.To = k.From.UTC(), k.To.UTC()
				lines = append(lines, fmt.Sprintf("%+v", k))
			}
			slices.Sort(lines)
			return strings.Join(lines, "\n")
		}
		if got, want := text(kept), text(want); got != want {
			h.Fatalf("%s: client %d sees of worker %d\n%s\nand not\n%s", what, i, worker, got, want)
		}
	}
}

func held(worker, second int) lease.Holding {
	return lease.Holding{
		Worker: worker, From: time.Unix(int64(second), 1), To: time.Unix(int64(second)+1, 0),
		Token: "token", Owner: "owner", Host: "host", PID: 7,
	}
}

func (h *history) keeps() {
	h.holds("nothing was saved", 1)
	plain := held(1, 1000)
	odd := held(1, 2000)
	odd.ClockSeq, odd.Token, odd.Owner, odd.Host, odd.PID = 3, `a'b"c\d%s?$1:x; --`, "Zoë 雪 🏂\n", "", 0
	early := held(1, 0)
	early.From, early.To = time.Time{}, time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.UTC)
	late := held(1, 3000)
	late.From, late.To = time.Date(9999, 12, 31, 23, 59, 59, 999999998, time.FixedZone("", 3600)), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	for _, k := range []lease.Holding{plain, odd, early, late} { // the first with version 1
		h.save(k, time.Time{})
	}
	h.holds("all were kept", 1, plain, odd, early, late)
	h.holds("another worker ID", 11)
	if _, err := h.stores[0].Save(h.Context(), h.record(1)); err != nil {
		h.Fatal(err)
	}
	h.version[1]++
	h.holds("a plain save", 1, plain, odd, early, late)
}

func (h *history) replacesTheSame() {
	first := held(2, 1000)
	h.save(first, time.Time{})
	longer := first
	longer.To = longer.To.Add(time.Hour)
	longer.Owner = "the same, later"
	h.save(longer, time.Time{})
	h.holds("the same stretch again", 2, longer)
	h.save(longer, time.Time{})
	h.holds("the same holding again", 2, longer)
	token, seq, from := first, first, first
	token.Token += "x"
	seq.ClockSeq++
	from.From = from.From.Add(1)
	for _, k := range []lease.Holding{token, seq, from} {
		h.save(k, time.Time{})
	}
	h.holds("others that begin there", 2, longer, token, seq, from)
}

func (h *history) forgets() {
	a, b, c, long := held(3, 1000), held(3, 2000), held(3, 3000), held(3, 500)
	long.To = time.Unix(5000, 0)
	other := held(31, 1000)
	h.save(other, time.Time{})
	for _, k := range []lease.Holding{a, b, c, long} {
		h.save(k, time.Time{})
	}
	d := held(3, 6000)
	h.save(d, b.To)
	h.holds("what ended at the instant stays", 3, b, c, long, d)
	d.To = d.To.Add(1)
	h.save(d, b.To.Add(1))
	h.holds("what ended a nanosecond before it goes", 3, c, long, d)
	h.save(held(3, 4000), time.Unix(5500, 0))
	h.holds("and so does what is kept", 3, d)
	shorter := d
	shorter.To = d.From
	h.save(shorter, d.From.Add(1))
	h.holds("and what it replaces", 3)
	h.holds("those of others stay", 31, other)
}

func (h *history) isWholeOrNot() {
	first := held(4, 1000)
	h.save(first, time.Time{})
	canceled, cancel := context.WithCancel(h.Context())
	cancel()
	if _, err := h.stores[0].SaveEnding(canceled, h.record(4), held(4, 1), time.Unix(1e9, 0)); !errors.Is(err, context.Canceled) {
		h.Errorf("SaveEnding with a context that is done: %v", err)
	}
	if _, err := h.stores[0].History(canceled, 4); !errors.Is(err, context.Canceled) {
		h.Errorf("History with a context that is done: %v", err)
	}
	for _, wrong := range []uint64{0, 1, 3, 1 << 40} {
		r := h.record(4)
		r.Version = wrong
		if _, err := h.stores[0].SaveEnding(h.Context(), r, held(4, 1), time.Unix(1e9, 0)); !errors.Is(err, lease.ErrConflict) {
			h.Errorf("SaveEnding of version %d after version 1: %v", wrong, err)
		}
	}
	h.holds("nothing was saved", 4, first)

	want := []lease.Holding{first}
	for round := range 10 {
		won := make(chan lease.Holding, len(h.stores))
		r := h.record(4)
		var all []chan error
		for i, s := range h.stores {
			k := held(4, 2000+10*round+i)
			done := make(chan error)
			go func() {
				_, err := s.SaveEnding(context.Background(), r, k, time.Time{})
				if err == nil {
					won <- k
				}
				done <- err
			}()
			all = append(all, done)
		}
		for _, done := range all {
			if err := <-done; err != nil && !errors.Is(err, lease.ErrConflict) {
				h.Fatal(err)
			}
		}
		if len(won) != 1 {
			h.Fatalf("%d of %d saves of one version were made", len(won), len(h.stores))
		}
		want = append(want, <-won)
		h.version[4]++
	}
	h.holds("one of several at once", 4, want...)
}
