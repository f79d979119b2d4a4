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

// Wiped calls wipe, which deletes a space, or a part of it with the records of worker IDs 0 to 2, while
// these worker IDs are held. The holders issue IDs until their windows end, and their errors say why
// they cannot renew. Newcomers are refused. Then Wiped calls create, which repairs the space as a process
// that starts would. Newcomers repeat no ID, and the holders issue IDs again by themselves.
func Wiped(t *testing.T, s *Server, wipe, create func(space string)) {
	t.Helper()
	const holders = 3
	space, ids := s.space(t), seen{}
	var all []*holder
	for i := range holders {
		name := fmt.Sprint("holder ", i)
		l, crash, err := Acquire(t, s.Open(t, s.Addr, space), lease.Options{ // if it is lost, a replacement
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
		ids.issueSoon(t, h, name)
		all = append(all, h)
	}
	store := s.Open(t, s.Addr, space) // before the wipe, because Open may make the space
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
		ids.issueSoon(t, mustAcquire(t, store, lease.Options{Owner: name, Window: s.window()}), name)
	}
	for i, h := range all {
		ids.issueSoon(t, h, fmt.Sprint("holder ", i))
	}
}

// issueSoon issues 1,000 IDs. While the window has ended, it tries again: on a busy machine a renewal may be late.
func (ids seen) issueSoon(t *testing.T, h *holder, name string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		err := ids.issue(t, h, name, 1000)
		if err == nil {
			return
		}
		if !errors.Is(err, snowflake.ErrLeaseExpired) || time.Since(begun) > patience {
			t.Fatalf("%s does not issue IDs: %v, %+v", name, err, h.Stats())
		}
	}
}

// Gone calls wipe, which deletes the record of worker ID 0, and more. Then LoadWorker must fail, and so
// must Save, whether the record has version 1 or the next version.
func Gone(t *testing.T, store lease.Store, wipe func()) {
	t.Helper()
	r := load(t, store, 0)
	wipe()
	if snap, err := store.LoadWorker(t.Context(), r.Worker); !errors.Is(err, lease.ErrWiped) {
		t.Errorf("LoadWorker returns %v, %v", snap.Records, err)
	}
	for _, version := range []uint64{1, r.Version + 1} {
		next := r
		next.Version = version
		if _, err := store.Save(t.Context(), next); !errors.Is(err, lease.ErrWiped) {
			t.Errorf("Save of version %d returns %v", version, err)
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
