//go:build unix

package k8slease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

func TestHoldersContinueAfterTheirRecordsAreWiped(t *testing.T) {
	depth.NeedFull(t, "a holder whose store is wiped")
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

// If a store lost a record, calls that need the record return ErrWiped. Other worker IDs work.
func recordIsGone(t *testing.T, c *cluster) {
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
	kubectl.delete(prefix + "-1") // it is reported again
	if _, err := s.LoadWorker(t.Context(), 1); !errors.Is(err, lease.ErrWiped) {
		t.Error(err)
	}
	// If nobody issues IDs under a worker ID, an operator can remove it for good.
	kubectl.delete(fmt.Sprint(prefix, "-1-history"))
	save(t, s, record(1, 1))
}

// Two records are deleted one after the other, while Create waits because of the first. The holder of the
// second may have renewed until then, so Create waits for its window, too.
func goneOneByOne(t *testing.T, c *cluster) {
	for name, first := range map[string]string{"Record": "-1", "Store": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, prefix, kubectl := c.fresh(t)
			save(t, s, record(1, 1))
			save(t, s, record(2, 1))
			kubectl.delete(prefix + first)
			const window = 500 * time.Millisecond
			created := make(chan error, 1)
			go func() { created <- s.Create(t.Context(), window) }()
			time.Sleep(window + window/2)
			gone := time.Now()
			kubectl.delete(prefix + "-2")
			if first == "" {
				kubectl.delete(prefix + "-2-history")
			}
			err := <-created
			if waited := time.Since(gone); err != nil || waited < 2*window {
				t.Errorf("Create has waited for %v after the last record was deleted, with a window of %v; %v", waited, window, err)
			}
			save(t, s, record(2, 1))
		})
	}
}

// The holder of a record that is gone takes another worker ID after its window, and newcomers do so at
// once, however many records are gone.
func holderGoesOn(t *testing.T, c *cluster) {
	s, prefix, kubectl := c.fresh(t)
	s.SetPage(2)
	for worker := range 5 {
		r := record(worker, 1)
		r.State = lease.Free
		save(t, s, r)
	}
	l, err := lease.Acquire(t.Context(), opened(t, c.Addr, in(prefix)), &lease.Options{Window: window, Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release(t.Context())
	l2, err := lease.Acquire(t.Context(), opened(t, c.Addr, in(prefix)), &lease.Options{Window: window, Count: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer l2.Release(t.Context())
	for _, worker := range []string{"-1", "-2", "-3", "-4"} {
		kubectl.delete(prefix + worker)
	}
	for _, s := range []*k8slease.Store{s, opened(t, c.Addr, in(prefix))} {
		newcomer, err := lease.Acquire(t.Context(), s, &lease.Options{Window: window, First: 1, Count: 8})
		if err != nil || newcomer.Worker() < 5 {
			t.Fatalf("%v, %v", newcomer, err)
		}
		if err := newcomer.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it has another worker ID", func() bool { return l2.Stats().Replacements > 0 })
	if l.Stats().Replacements > 0 {
		t.Errorf("the other holder has another worker ID, too: %+v", l.Stats())
	}
	if err := s.Create(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if snap, err := s.Load(t.Context()); err != nil || len(snap.Lost) > 0 {
		t.Errorf("%+v, %v", snap, err)
	}
}

// The record was made, and the process did not hear of it. When that record is deleted later, it does
// not look as if it was never used.
func lostFirstAnswer(t *testing.T, c *cluster) {
	_, prefix, kubectl := c.fresh(t)
	var lose atomic.Bool
	s := c.through(t, prefix, func(rt http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := rt.RoundTrip(req)
			if err == nil && req.Method == http.MethodPost && lose.Swap(false) {
				resp.Body.Close()
				return nil, net.ErrClosed
			}
			return resp, err
		})
	})
	lose.Store(true)
	l, err := lease.Acquire(t.Context(), s, &lease.Options{Window: window})
	if err != nil || lose.Load() {
		t.Fatal(lose.Load(), err)
	}
	defer l.Release(t.Context())
	eventually(t, "it renews", func() bool { return l.Stats().Renewals > 0 })
	kubectl.delete(fmt.Sprint(prefix, "-", l.Worker()))
	if snap, err := opened(t, c.Addr, in(prefix)).LoadWorker(t.Context(), l.Worker()); !errors.Is(err, lease.ErrWiped) {
		t.Errorf("%+v, %v", snap, err)
	}
}

// Somebody removes the labels of all objects. Create does not take the store for a wiped store.
func withoutLabels(t *testing.T, c *cluster) {
	s, prefix, kubectl := c.fresh(t)
	save(t, s, record(1, 1))
	for _, name := range []string{"", "-1", "-1-history"} {
		kubectl.change(prefix+name, func(o *coordination.Lease) {
			delete(o.Labels, "snowflake-ids/store")
			delete(o.Labels, "snowflake-ids/kind")
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Create(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	if snap, err := s.Load(t.Context()); err != nil || len(snap.Records) != 1 || len(snap.Lost) > 0 {
		t.Errorf("%+v, %v", snap, err)
	}
	save(t, s, record(1, 2))
	kubectl.delete(prefix + "-1")
	if _, err := s.LoadWorker(t.Context(), 1); !errors.Is(err, lease.ErrWiped) {
		t.Error(err)
	}
}

func manyPages(t *testing.T, c *cluster) {
	s, prefix, kubectl := c.fresh(t)
	s.SetPage(2)
	const records = 7
	for worker := range records {
		save(t, s, record(worker, 1))
	}
	if snap, err := s.Load(t.Context()); err != nil || len(snap.Records) != records {
		t.Errorf("%+v, %v", snap, err)
	}
	if err := s.Create(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	kubectl.delete(prefix + "-6")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := s.Create(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Create does not see that a record is gone: %v", err)
	}
}
