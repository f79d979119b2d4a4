//go:build go1.25

package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

var errFault = errors.New("as the test wants it")

// faulty is the disk and the store of one process. One step of them fails. A step is a request that
// changes the disk, or any request to the store.
type faulty struct {
	m      *memory
	killed func() // ends what is under way

	mu   sync.Mutex
	how  string
	at   int // the step that fails, from 0 on
	done []string
}

var faults = []string{"fails", "is made, and said to have failed", "is not reached by a process that is killed",
	"is the last of a process that is killed", "finds the disk full"}

func (f *faulty) step(what string, onDisk bool, do func() error) error {
	f.mu.Lock()
	n := len(f.done)
	f.done = append(f.done, what)
	f.mu.Unlock()
	at, past := n == f.at, n >= f.at
	if past && (f.how == faults[2] || f.how == faults[3]) {
		defer f.killed()
	}
	switch {
	case f.how == faults[0] && at, f.how == faults[2] && past, f.how == faults[3] && past && !at, f.how == faults[4] && past && onDisk:
		return fmt.Errorf("%s: %w", what, errFault)
	case f.how == faults[1] && at, f.how == faults[3] && at:
		_ = do()
		return fmt.Errorf("%s: %w", what, errFault)
	}
	return do()
}

func (f *faulty) steps() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.done)
}

// ask is the store with the fault.
func (f *faulty) ask(ctx context.Context, q *query) error {
	if q.do == "now" {
		return f.m.asks(ctx, q)
	}
	return f.step(q.do+" "+q.key, false, func() error { return f.m.asks(ctx, q) })
}

// disk is the operating system's disk with the fault.
func (f *faulty) disk(what, path string, do func() error) error {
	switch what {
	case "list", "stat", "read", "remove":
		return do()
	case "lock", "create": // nobody would close a file that was opened
		if err := f.step(what+" "+filepath.Base(path), true, func() error { return nil }); err != nil {
			return err
		}
		return do()
	}
	return f.step(what+" "+filepath.Base(path), true, do)
}

// copied has the IDs that several processes with one LocalCopy have issued.
type copied struct {
	*testing.T
	m     *memory
	dir   string
	seen  map[snowflake.ID]bool
	count int
}

// start starts a process, in which one step fails, and lets it issue IDs if it can.
func (c *copied) start(f *faulty) error {
	f.m = c.m
	ctx, cancel := context.WithTimeout(c.Context(), 2*span) // of trying while the disk is full
	defer cancel()
	f.killed = cancel
	l, err := Acquire(ctx, asks(f.ask), &Options{disk: f.disk, Layout: both, Owner: "a", Reuse: ReuseKeep, LocalCopy: c.dir, NewStore: true, Count: c.count})
	if err != nil {
		require.NotErrorIs(c, err, ErrBadRecord)
		return err
	}
	defer stopRenewing(l)
	g, err := snowflake.NewLeased(l, nil)
	require.NoError(c, err)
	for range 3 {
		if id, err := g.NextID(); err == nil { // it cannot if its renewals fail
			require.False(c, c.seen[id], "an ID is issued twice")
			c.seen[id] = true
		}
		time.Sleep(span / 3)
	}
	if f.at%2 == 0 {
		err := l.Release(c.Context())
		if f.how == "" {
			require.NoError(c, err)
		}
	}
	return nil
}

// workers returns the worker IDs that were ever taken.
func (c *copied) workers() int { return c.m.count() }

// Whichever step of a start fails, or of two, the next start gets the same worker ID, and repeats
// no ID. In the quick run, one of the faults happens at each step.
func TestNextStartRepeatsNoIDWhicheverStepFails(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"new", "failed before", "given back by another", "had before"} {
		for first, how := range faults {
			t.Run(before+", "+how, func(t *testing.T) {
				for at := depth.Of(first, 0); ; at += depth.Of(len(faults), 1) {
					last := false
					synctest.Test(t, func(t *testing.T) {
						c := &copied{T: t, m: newMemory(), dir: t.TempDir(), seen: map[snowflake.ID]bool{}}
						switch before {
						case "failed before":
							_ = c.start(&faulty{how: how, at: at})
						case "given back by another":
							c.count = 1
							ctx, cancel := context.WithCancel(t.Context())
							lost := asks(func(ctx context.Context, q *query) error {
								err := c.m.asks(ctx, q)
								if q.saves() {
									cancel()
								}
								return cmp.Or(err, ctx.Err())
							})
							_, err := Acquire(ctx, lost, &Options{Layout: both, Owner: "b", Reuse: ReuseKeep, NewStore: true, Count: 1})
							require.ErrorIs(t, err, context.Canceled)
							require.EqualValues(t, 2, c.m.record(0).Saves)
						case "had before":
							require.NoError(t, c.start(new(faulty)))
						}
						f := &faulty{how: how, at: at}
						_ = c.start(f)
						require.NoError(t, c.start(new(faulty)), "after step %d, %s", at, f.steps()[min(at, len(f.steps())-1)])
						require.Equal(t, 1, c.workers(), "after step %d of %s", at, strings.Join(f.steps(), ", "))
						r := slices.Collect(maps.Values(c.m.records()))[0]
						require.True(t, strings.HasPrefix(r.Owner, "a @"), "%v", r)
						require.Equal(t, StateFree, r.State)
						last = at >= len(f.steps())
					})
					if last || t.Failed() {
						return
					}
				}
			})
		}
	}
}
