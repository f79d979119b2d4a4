//go:build unix

package etcdlease_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

// has checks the history of a worker ID.
func has(t *testing.T, s lease.Historian, worker int, want ...lease.Holding) {
	t.Helper()
	got, err := s.History(t.Context(), worker)
	if err != nil {
		t.Fatal(err)
	}
	order := func(a, b lease.Holding) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.ClockSeq, b.ClockSeq), cmp.Compare(a.Token, b.Token))
	}
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("the history of worker %d has %d holdings, not %d:\n%+v, not\n%+v", worker, len(got), len(want), got, want)
	}
}

// chain saves one version of a record after another.
type chain struct {
	t *testing.T
	s lease.Historian
	r lease.Record
}

func begin(t *testing.T, s lease.Historian, worker int) *chain {
	t.Helper()
	c := &chain{t, s, record(worker, 1)}
	save(t, s, c.r)
	return c
}

func (c *chain) ending(ended lease.Holding, forget time.Time) lease.Record {
	c.t.Helper()
	c.r.Version++
	c.r.Forgotten = forget
	c.r.Token = fmt.Sprint("token of version ", c.r.Version)
	r, err := c.s.SaveEnding(c.t.Context(), c.r, ended, forget)
	if err != nil {
		c.t.Fatal(err)
	}
	c.r = r
	return r
}

func TestHistoryDropsOnlyHoldingsThatEndedEarlier(t *testing.T) {
	t.Parallel()
	client := ofItsOwn(t)
	s := store(t, client, nil)
	at := func(minute int) time.Time { return time.Date(2026, 11, 20, 12, minute, 0, 0, time.UTC) }
	h := func(seq, from, to int) lease.Holding {
		return lease.Holding{Worker: 1, ClockSeq: seq, From: at(from), To: at(to), Token: "token", Owner: "owner"}
	}
	for i, test := range []struct {
		name   string
		before []lease.Holding
		ended  lease.Holding
		forget time.Time
		after  []lease.Holding
	}{
		{"nothing", nil, h(0, 1, 2), time.Time{}, []lease.Holding{h(0, 1, 2)}},
		{"all", []lease.Holding{h(0, 1, 2), h(0, 2, 3), h(0, 3, 4)}, h(0, 4, 5), at(5), []lease.Holding{h(0, 4, 5)}},
		{"what ended at forget stays", []lease.Holding{h(0, 1, 2), h(0, 2, 3)}, h(0, 4, 5), at(3), []lease.Holding{h(0, 2, 3), h(0, 4, 5)}},
		{"long ones between short ones", []lease.Holding{h(0, 1, 2), h(1, 1, 9), h(2, 1, 3), h(3, 1, 9), h(0, 2, 4), h(0, 4, 8)}, h(4, 5, 6), at(5),
			[]lease.Holding{h(1, 1, 9), h(3, 1, 9), h(0, 4, 8), h(4, 5, 6)}},
		{"the new one lies between what is dropped", []lease.Holding{h(0, 1, 2), h(2, 1, 2), h(0, 2, 3)}, h(1, 1, 9), at(5), []lease.Holding{h(1, 1, 9)}},
		{"the same one, longer", []lease.Holding{h(0, 1, 2), h(0, 2, 3), h(0, 4, 5)}, h(0, 2, 4), time.Time{}, []lease.Holding{h(0, 1, 2), h(0, 2, 4), h(0, 4, 5)}},
		{"the same one, which had ended before", []lease.Holding{h(0, 1, 2), h(0, 2, 3), h(0, 3, 4)}, h(0, 2, 9), at(5), []lease.Holding{h(0, 2, 9)}},
		{"it has ended before itself", []lease.Holding{h(0, 1, 2)}, h(0, 2, 3), at(3).Add(1), nil},
		{"it has ended before itself, and was there", []lease.Holding{h(0, 1, 2), h(0, 2, 9), h(0, 4, 6)}, h(0, 2, 3), at(5), []lease.Holding{h(0, 4, 6)}},
		{"from the beginning of time", []lease.Holding{{Worker: 1, To: at(1), Token: "token"}}, h(0, 1, 2), at(1), []lease.Holding{{Worker: 1, To: at(1), Token: "token"}, h(0, 1, 2)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := begin(t, s, i)
			for _, h := range test.before {
				c.ending(h, time.Time{})
			}
			has(t, s, i, test.before...)
			saved := c.ending(test.ended, test.forget)
			has(t, s, i, test.after...)
			if !saved.Forgotten.Equal(test.forget) {
				t.Errorf("Forgotten is %v, not %v", saved.Forgotten, test.forget)
			}
		})
	}
}

// putHistory puts many holdings, as SaveEnding does one by one.
func putHistory(t *testing.T, c *clientv3.Client, s *etcdlease.Store, all []lease.Holding) {
	t.Helper()
	for some := range slices.Chunk(all, 100) {
		var puts []clientv3.Op
		for _, h := range some {
			value, err := json.Marshal(h)
			if err != nil {
				t.Fatal(err)
			}
			puts = append(puts, clientv3.OpPut(s.HoldingKey(h), string(value)))
		}
		if _, err := c.Txn(t.Context()).Then(puts...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// etcd refuses transactions of more than 128 operations.
func TestHistoryDropsMoreThanATransactionAtOnce(t *testing.T) {
	t.Parallel()
	client := ofItsOwn(t)
	s := store(t, client, nil)
	const n = 300
	var all []lease.Holding
	for i := range n {
		all = append(all, holding(1, i))
	}
	c := begin(t, s, 1)
	putHistory(t, client, s, all)
	has(t, s, 1, all...)
	last := holding(1, n)
	c.ending(last, last.From.Add(time.Second))
	has(t, s, 1, last)

	// If one of two clock sequences is dropped, its keys are in many ranges.
	c = begin(t, s, 2)
	var left []lease.Holding
	all = nil
	for i := range n {
		h := holding(2, i)
		if i%2 > 0 {
			h.To = h.To.Add(24 * time.Hour)
			left = append(left, h)
		}
		all = append(all, h)
	}
	putHistory(t, client, s, all)
	has(t, s, 2, all...)
	last = holding(2, n)
	c.ending(last, last.From)
	got, err := s.History(t.Context(), 2)
	if err != nil || len(got) > 1+n-n/3 {
		t.Fatalf("%d are left, %v", len(got), err)
	}
	after := holding(2, n+1)
	c.ending(after, last.From)
	has(t, s, 2, append(left, last, after)...)
}

func TestHistoryChangesOnlyWithTheRecord(t *testing.T) {
	t.Parallel()
	client := ofItsOwn(t)
	s := store(t, client, nil)
	c := begin(t, s, 1)
	c.ending(holding(1, 1), time.Time{})
	for _, version := range []uint64{0, 1, 2, 4, 5} {
		_, err := s.SaveEnding(t.Context(), record(1, version), holding(1, 2), holding(1, 9).From)
		if !errors.Is(err, lease.ErrConflict) {
			t.Errorf("version %d over version 2: %v", version, err)
		}
		has(t, s, 1, holding(1, 1))
	}
	// The first save of a worker ID may keep a holding too.
	if _, err := s.SaveEnding(t.Context(), record(3, 1), holding(3, 1), time.Time{}); err != nil {
		t.Fatal(err)
	}
	has(t, s, 3, holding(3, 1))
	has(t, s, 4)
}

// If a save names a new holder, the store makes the holder's session before the transaction.
func TestTakeoverMakesItsHolderAlive(t *testing.T) {
	t.Parallel()
	client := ofItsOwn(t)
	s := store(t, client, nil)
	c := begin(t, s, 1)
	for i := range 3 {
		c.ending(holding(1, i), time.Time{})
		if !live(t, s, 1) {
			t.Fatal("the holder is not alive")
		}
	}
	c.r.Version++
	if _, err := s.SaveEnding(t.Context(), c.r, lease.Holding{Token: c.r.Token, ClockSeq: 1}, time.Time{}); err != nil { // another clock sequence
		t.Fatal(err)
	}
	if !live(t, s, 1) {
		t.Fatal("after a change of the clock sequence the holder is not alive")
	}
}

func TestUnreadableHistoryIsRefused(t *testing.T) {
	t.Parallel()
	client := ofItsOwn(t)
	s := store(t, client, nil)
	c := begin(t, s, 1)
	c.ending(holding(1, 1), time.Time{})
	const key = "/snowflake/history/0000000001/20261120T120100.000000000-0-x"
	put(t, client, key, `{"worker":`)
	if _, err := s.History(t.Context(), 1); !errors.Is(err, lease.ErrBadRecord) {
		t.Errorf("History: %v", err)
	}
	c.ending(holding(1, 2), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) // it can be saved, and is not dropped
	if resp, err := client.Get(t.Context(), key); err != nil || len(resp.Kvs) != 1 {
		t.Errorf("what could not be read is gone: %v, %v", resp, err)
	}
}

// If a history is full, the oldest holdings are dropped, and Record.Forgotten says so.
func TestHistoryKeepsALimitedNumberOfHoldings(t *testing.T) {
	t.Parallel()
	client := ofItsOwn(t)
	open := func(most int) lease.Historian {
		s := store(t, client, nil)
		s.SetKeep(most)
		return s
	}
	c := begin(t, open(10), 1)
	var all []lease.Holding
	add := func() {
		t.Helper()
		all = append(all, holding(1, len(all)))
		saved := c.ending(all[len(all)-1], time.Time{})
		snap, err := c.s.LoadWorker(t.Context(), 1)
		if err != nil || !snap.Records[0].Forgotten.Equal(saved.Forgotten) {
			t.Fatalf("Forgotten is %v, and %+v is stored, %v", saved.Forgotten, snap, err)
		}
	}
	for range 10 {
		add()
		has(t, c.s, 1, slices.Clone(all)...)
	}
	if !c.r.Forgotten.IsZero() {
		t.Errorf("nothing was dropped, and Forgotten is %v", c.r.Forgotten)
	}
	for range 5 {
		add()
		left := all[len(all)-10:]
		has(t, c.s, 1, slices.Clone(left)...)
		if !c.r.Forgotten.Equal(left[0].From) { // at that time the holding before ended
			t.Errorf("Forgotten is %v, not %v", c.r.Forgotten, left[0].From)
		}
	}
	c.s = open(3)
	add()
	add()
	has(t, c.s, 1, slices.Clone(all[len(all)-3:])...)

	b, err := json.Marshal(all[0])
	if err != nil || len(b)*etcdlease.MaxHistory > 1<<20 {
		t.Errorf("the history of a worker ID may have %d B, %v", len(b)*etcdlease.MaxHistory, err)
	}
}
