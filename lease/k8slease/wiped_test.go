//go:build unix

package k8slease_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func TestWipedUnderLiveHolders(t *testing.T) {
	t.Parallel()
	addr := start(t).Addr
	s := &servertest.Server{Addr: addr, Open: open, Window: window}
	for name, kinds := range map[string][]string{
		"All":             {"in (record,history,store)"},
		"Records":         {"=record"},
		"RecordsAndStore": {"=record", "=store"},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Wiped(t, s, func(space string) {
				for _, kind := range kinds {
					if kind[0] != '=' {
						kind = " " + kind
					}
					remove(t, addr, "snowflake-ids/store="+space+",snowflake-ids/kind"+kind)
				}
			}, func(space string) {
				if err := opened(t, addr, in(space)).Create(t.Context(), window); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A store that lost one record says so to who asks for it. Others go on.
func TestRecordThatIsGone(t *testing.T) {
	t.Parallel()
	c := &cluster{start(t)}
	s, prefix, kubectl := c.fresh(t)
	save(t, s, record(1, 1))
	save(t, s, record(2, 1))
	r := save(t, s, record(1, 2))
	r.Version++
	if _, err := s.SaveEnding(t.Context(), r, holding(1, 1), time.Time{}); err != nil {
		t.Fatal(err)
	}
	kubectl.delete(prefix + "-1")
	for name, call := range map[string]func(lease.Historian) error{
		"LoadWorker": func(s lease.Historian) error { _, err := s.LoadWorker(t.Context(), 1); return err },
		"History":    func(s lease.Historian) error { _, err := s.History(t.Context(), 1); return err },
		"Save 1":     func(s lease.Historian) error { _, err := s.Save(t.Context(), record(1, 1)); return err },
		"Save 4":     func(s lease.Historian) error { _, err := s.Save(t.Context(), record(1, 4)); return err },
		"SaveEnding": func(s lease.Historian) error {
			_, err := s.SaveEnding(t.Context(), record(1, 4), holding(1, 1), time.Time{})
			return err
		},
		"Acquire": func(s lease.Historian) error {
			_, err := lease.Acquire(t.Context(), s, &lease.Options{First: 1, Count: 1, Window: window})
			return err
		},
	} {
		for _, s := range []lease.Historian{s, opened(t, c.Addr, in(prefix))} {
			if err := call(s); !errors.Is(err, lease.ErrWiped) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	save(t, s, record(2, 2))
	if err := s.Create(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	save(t, s, record(1, 1))
	if snap, err := s.Load(t.Context()); err != nil || len(snap.Records) != 2 {
		t.Errorf("%v, %v", snap, err)
	}
	kubectl.delete(prefix + "-1") // is noticed again
	if _, err := s.LoadWorker(t.Context(), 1); !errors.Is(err, lease.ErrWiped) {
		t.Error(err)
	}
	// Whoever knows that nobody issues under it can remove a worker ID for good.
	kubectl.delete(fmt.Sprint(prefix, "-1-history"))
	save(t, s, record(1, 1))
}
