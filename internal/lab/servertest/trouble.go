//go:build unix && go1.25

package servertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/netcut"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Trouble is a trouble of a server, of the network or of the server's data. After it, all processes
// recover by themselves.
type Trouble struct {
	Name string

	// Begin starts the trouble in a space, and returns a function that ends it. If it returns nil,
	// the trouble has already ended.
	Begin func(t *testing.T, space string) (end func(t *testing.T))

	// Says has texts of the true cause. Until the trouble ends, each error contains one of them.
	Says []string

	// Never has texts of false causes. Until the trouble ends, no error contains one of them.
	Never []string
}

// Passes is a trouble that has ended when do returns.
func Passes(name string, do func(t *testing.T, space string)) Trouble {
	return Trouble{Name: name, Begin: func(t *testing.T, space string) func(*testing.T) { do(t, space); return nil }}
}

// Troubles runs a process with a worker ID during one trouble after another. During a trouble that
// must be ended, the errors of the process and of newcomers name the cause, and a newcomer waits.
// After the trouble, the process renews and issues IDs, and newcomers start. No ID is issued twice.
//
// If h is not nil, the processes reach the server through it, and the first troubles are those of
// the network. If s has a Dir, the last troubles are that the server loses its data, and that a
// backup is restored.
//
// In the full run each trouble is also followed by two others, drawn at random, before processes
// can have recovered; with the flag -pairs, by each other one. The log has the times.
func Troubles(t *testing.T, s *Server, h *Host, all ...Trouble) {
	t.Helper()
	f := &troubled{s: s, addr: s.Addr, space: NewSpace(), ids: seen{}}
	if h != nil {
		f.addr, all = h.Addr(), append(network(h), all...)
	}
	if s.Dir != "" {
		all = append(all, LosesDisk(s), isRestored(s))
	}
	f.live = Must(f.start(t, t.Context(), "live", true))(t)
	f.keepIssuing(t)
	for _, x := range all {
		t.Run(x.Name, func(t *testing.T) { f.suffer(t, x) })
	}
	steps := rand.Perm(len(all))
	if !*pairs {
		steps = steps[:min(depth.Of(0, 2), len(steps))]
	}
	for _, step := range steps {
		for i, x := range all {
			y := all[(i+step)%len(all)]
			t.Run(x.Name+"Then"+y.Name, func(t *testing.T) { f.suffer(t, x, y) })
		}
	}
}

var pairs = flag.Bool("pairs", false, "let each trouble follow each other one, which takes about 10 minutes for a store")

// troubled is the state that the processes of a test share.
type troubled struct {
	s           *Server
	addr, space string
	live        *process

	mu       sync.Mutex
	ids      seen
	newcomer int
}

// process is a lease with its generator and its own client.
type process struct {
	name  string
	lease *lease.Lease
	gen   *snowflake.Generator
	store lease.Store
}

// start starts a process. ctx is for the acquisition only.
func (f *troubled) start(t *testing.T, ctx context.Context, name string, isNew bool) (*process, error) {
	store, end, err := f.s.open(f.addr, f.space)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	if end != nil {
		t.Cleanup(func() { _ = end() })
	}
	l, err := lease.Acquire(ctx, store, &lease.Options{
		Layout: fleetLayout(), Owner: name, Window: f.s.window(), MaxLeap: 24 * time.Hour, NewStore: isNew,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), f.s.window())
		defer cancel()
		_ = l.Release(ctx)
	})
	g, err := snowflake.NewLeased(l, nil)
	return &process{name, l, g, store}, err
}

// issue issues an ID, and fails the test if it was issued before.
func (f *troubled) issue(t testing.TB, p *process) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := p.gen.NextID()
	if err != nil {
		return err
	}
	if by, ok := f.ids[id]; ok {
		assert.Fail(t, "an ID is issued twice", "%s issues %d (%v), which %s issued before", p.name, id, fleetLayout().Decode(id), by)
	}
	f.ids[id] = p.name
	return nil
}

// keepIssuing lets the live process issue IDs until the test ends.
func (f *troubled) keepIssuing(t *testing.T) {
	var issuing sync.WaitGroup
	over := make(chan struct{})
	issuing.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(5 * time.Millisecond):
				_ = f.issue(t, f.live)
			}
		}
	})
	t.Cleanup(func() {
		close(over)
		issuing.Wait()
	})
}

// suffer runs troubles, one immediately after the other, and waits until the processes have
// recovered.
func (f *troubled) suffer(t *testing.T, all ...Trouble) {
	for i, x := range all {
		begun := x.Begin(t, f.space)
		end := sync.OnceFunc(func() {
			if begun != nil {
				begun(t)
			}
		})
		defer end() // even if the test fails, for the next trouble
		var early chan error
		if begun != nil && i == len(all)-1 && len(x.Says) > 0 {
			early = make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			name := f.next()
			go func() {
				_, err := f.start(t, ctx, name, false)
				early <- err
			}()
			f.saysTheCause(t, x)
		}
		end()
		if i == len(all)-1 {
			f.recovers(t, x.Name, early)
		}
	}
}

func (f *troubled) next() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.newcomer++
	return fmt.Sprint("newcomer ", f.newcomer)
}

// saysTheCause waits until the live process, and a newcomer whose context ends, name the cause.
func (f *troubled) saysTheCause(t *testing.T, x Trouble) {
	t.Helper()
	isTrue := func(who string, err error) error {
		if err == nil {
			return errors.New(who + " has no error")
		}
		for _, text := range x.Never {
			require.NotContains(t, err.Error(), text, who)
		}
		if !slices.ContainsFunc(x.Says, func(text string) bool { return strings.Contains(err.Error(), text) }) {
			return fmt.Errorf("%s does not say %q: %w", who, x.Says, err)
		}
		return nil
	}
	Await(t, func() error { return isTrue("the live process", f.live.lease.Stats().LastError) })
	for wait := f.s.window(); ; wait *= 2 { // on a busy machine the first wait may be too short
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err := f.start(t, ctx, f.next(), false)
		cancel()
		if err = isTrue("a newcomer", err); err == nil {
			return
		}
		require.Less(t, wait, patience, "%v", err)
	}
}

// recovers waits until the live process renews and issues IDs, the newcomer that began during the
// trouble has started, and another newcomer starts.
func (f *troubled) recovers(t *testing.T, name string, early chan error) {
	t.Helper()
	begun := time.Now()
	said := func(st lease.Stats) uint64 { return st.Renewals + st.Replacements }
	before := said(f.live.lease.Stats())
	Await(t, func() error {
		st := f.live.lease.Stats()
		if said(st) == before {
			f.noLongerWaits(t)
			return fmt.Errorf("the live process does not renew: %w, %+v", st.LastError, st)
		}
		return f.issue(t, f.live)
	})
	renews := time.Since(begun)
	started := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begun = time.Now()
	go func() {
		p, err := f.start(t, ctx, f.next(), false)
		if err == nil {
			err = f.issue(t, p)
		}
		started <- err
	}()
	for waiting := true; waiting; {
		select {
		case err := <-started:
			require.NoError(t, err, "a newcomer does not start")
			waiting = false
		case <-time.After(50 * time.Millisecond):
			f.noLongerWaits(t)
		}
	}
	starts := time.Since(begun)
	if early != nil {
		select {
		case err := <-early:
			require.NoError(t, err, "a newcomer that began during the trouble does not start")
		case <-time.After(patience):
			require.Fail(t, "a newcomer that began during the trouble waits")
		}
	}
	t.Logf("after %s (windows of %v) the live process renews in %.1f s, and a newcomer starts in %.1f s",
		name, f.s.window(), renews.Seconds(), starts.Seconds())
}

// noLongerWaits shortens the wait of minutes for a store without entries, if no window can be open.
func (f *troubled) noLongerWaits(t *testing.T) {
	st := f.live.lease.Stats()
	if st.LastError != nil && time.Now().Before(st.Bound) {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), f.s.window())
	defer cancel()
	netcut.PretendToHaveWaited(ctx, f.live.store)
}

// network returns the troubles of the network: the server gets another address, its name does not
// resolve for a while, or open connections become half-open.
func network(h *Host) []Trouble {
	return []Trouble{
		Passes("MovesToAnotherAddress", func(*testing.T, string) { h.Move() }),
		Passes("MovesAndTheOldAddressDoesNotAnswer", func(*testing.T, string) { h.Vanish() }),
		Passes("ConnectionsAreHalfOpen", func(*testing.T, string) { h.Swallow() }),
		{Name: "NameIsUnknown", Says: []string{"no such host"}, Begin: func(*testing.T, string) func(*testing.T) {
			h.Lose()
			return func(*testing.T) { h.Found() }
		}},
	}
}

// LosesDisk is the trouble of a server that restarts without its data, in Dir or in memory.
func LosesDisk(s *Server) Trouble {
	return Passes("RestartsEmpty", func(*testing.T, string) { s.LoseDisk(s.Dir) })
}

// isRestored is the trouble of a server that restarts with a backup. Package lease requires that by
// then no window is open.
func isRestored(s *Server) Trouble {
	return Passes("RestartsWithABackup", func(t *testing.T, space string) {
		backUp(t, s)
		writes(t, s, space)
		restore(t, s, s.window())
	})
}

// LostVersionsDoNotRepeat checks that a server with a restored backup does not give entries
// versions that were lost. A late request of a process with such a version would change an entry
// that another process has stored since.
func LostVersionsDoNotRepeat(t *testing.T, s *Server) {
	store := s.client(t, s.Addr, NewSpace())
	e := Put(t, store, "key", "", "first")
	lost := map[string]bool{}
	backUp(t, s)
	for at := e; len(lost) < 5; lost[at.Version] = true {
		at = Put(t, store, at.Key, at.Version, "lost")
	}
	restore(t, s, 0)
	recovers(t, store, e)
	for range 2 * len(lost) {
		e = Put(t, store, e.Key, e.Version, "another")
		require.NotContains(t, lost, e.Version)
		for version := range lost {
			_, err := store.Put(t.Context(), e.Key, version, []byte("late"))
			require.ErrorIs(t, err, lease.ErrConflict)
		}
	}
}

// backUp backs up a server's data.
func backUp(t *testing.T, s *Server) {
	t.Helper()
	s.Kill()
	Do(t, os.RemoveAll(s.Dir+".backup"), os.CopyFS(s.Dir+".backup", os.DirFS(s.Dir)))
	s.Restart()
}

// restore restores the backup, and restarts the server after a pause.
func restore(t *testing.T, s *Server, after time.Duration) {
	t.Helper()
	s.Kill()
	Do(t, os.RemoveAll(s.Dir), os.CopyFS(s.Dir, os.DirFS(s.Dir+".backup")))
	time.Sleep(after)
	s.Restart()
}

// writes waits until holders have written.
func writes(t *testing.T, s *Server, space string) {
	time.Sleep(2 * s.window())
	store := s.client(t, s.Addr, space)
	for i := range 20 {
		e, err := lease.Entry{}, errors.New("not yet")
		Await(t, func() error {
			e, err = store.Put(t.Context(), fmt.Sprintf("restored/%d", i), "", nil)
			if errors.Is(err, lease.ErrConflict) {
				e, err = store.Get(t.Context(), fmt.Sprintf("restored/%d", i))
			}
			return err
		})
		Do(t, store.Delete(t.Context(), e.Key, e.Version))
	}
}

// CertificatesAreRenewed is the trouble of a server that restarts with certificates of another
// authority, before the clients' files are renewed. If install is not nil, it gives the server its
// files.
func CertificatesAreRenewed(a *Authority, p *Process, install func()) Trouble {
	return Trouble{Name: "CertificatesAreRenewed", Says: []string{"certificate"}, Begin: func(*testing.T, string) func(*testing.T) {
		p.Kill()
		a.Renew("server", "next client")
		if install != nil {
			install()
		}
		p.Restart()
		return func(*testing.T) { a.Rename("next client", "client") }
	}}
}
