//go:build unix

package servertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Wiped lets wipe delete a space, or a part of it, under live holders. They go on to the end of their
// windows and are told why they cannot renew; newcomers are refused. Then create makes the space
// whole, as a process that starts would. Newcomers repeat no ID, and the holders go on by themselves.
func Wiped(t *testing.T, s *Server, wipe, create func(space string)) {
	t.Helper()
	const holders = 3
	space, ids := s.space(t), seen{}
	var all []*holder
	for i := range holders {
		name := fmt.Sprint("holder ", i)
		l, crash, err := Acquire(t, s.Open(t, s.Addr, space), lease.Options{ // and another one after it
			Layout: fleetLayout(), Owner: name, Window: s.window(), MaxLeap: 24 * time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		gen, err := snowflake.NewLeased(l, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := &holder{l, gen, crash}
		if err := ids.issue(t, h, name, 1000); err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	store := s.Open(t, s.Addr, space) // before the wipe: it may make the space
	wipe(space)
	newcomer := lease.Options{Owner: "newcomer", Window: s.window()}
	for range 3 {
		if h, err := acquire(t, store, newcomer); !errors.Is(err, lease.ErrWiped) {
			t.Fatalf("a newcomer gets %v, %v", h, err)
		}
	}
	for _, h := range all {
		h.awaitWiped(t)
	}
	created := make(chan struct{})
	go func() {
		defer close(created)
		create(space)
	}()
	for i, h := range all {
		name := fmt.Sprint("holder ", i)
		if err := ids.issue(t, h, name, maxIDs); !errors.Is(err, snowflake.ErrLeaseExpired) {
			t.Fatalf("%s, whose record is gone: %v", name, err)
		}
	}
	<-created
	for i := range holders {
		name := fmt.Sprint("newcomer ", i)
		h := mustAcquire(t, store, lease.Options{Owner: name, Window: s.window()})
		if err := ids.issue(t, h, name, 1000); err != nil {
			t.Fatal(err)
		}
	}
	for i, h := range all {
		name := fmt.Sprint("holder ", i)
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			err := ids.issue(t, h, name, 1000)
			if err == nil {
				break
			}
			if time.Since(begun) > patience {
				t.Fatalf("%s does not go on: %v, %+v", name, err, h.Stats())
			}
		}
	}
}

// maxIDs is more than a holder can issue in its window.
const maxIDs = 1 << 30

// awaitWiped waits until a holder says that its renewal failed because the store was wiped.
func (h *holder) awaitWiped(t *testing.T) {
	t.Helper()
	for begun := time.Now(); !errors.Is(h.Stats().LastError, lease.ErrWiped); time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("a holder whose record is gone says %+v", h.Stats())
		}
	}
}
