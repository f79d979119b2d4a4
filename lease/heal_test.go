package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
)

// occupy gives each worker ID of a layout, for which is returns true, to a live holder.
func (m *memory) occupy(t *testing.T, layout snowflake.Layout, is func(worker int) bool) {
	for worker := range 1 << layout.WorkerBits {
		if is(worker) {
			r := Record{Worker: worker, Layout: layout}.take(window{}, Record{Token: "x", Owner: fmt.Sprint(worker), Window: MaxWindow}, time.Now())
			r.Saves, r.Marked = 1, true
			_, err := putRecord(t.Context(), m, r)
			require.NoError(t, err)
		}
	}
}

// However many worker IDs there are, a start reads a few records.
func TestStartReadsLittle(t *testing.T) {
	for _, bits := range []uint8{4, 10, 14} {
		synctest.Test(t, func(t *testing.T) {
			layout := fleet
			layout.WorkerBits = bits
			m := newMemory()
			m.occupy(t, layout, func(int) bool { return rand.N(2) == 0 })
			const starts = 200
			most := 0
			m.reads = 0
			for i := range starts {
				before := m.reads
				h := mustAcquire(t, m, layout, clockAt(0), named(fmt.Sprint("n", i)))
				most = max(most, m.reads-before)
				require.NoError(t, h.Release(t.Context()))
			}
			assert.LessOrEqual(t, m.reads, 9*starts)
			if bits > 4 {
				assert.LessOrEqual(t, most, 40)
			}
			before := m.reads
			mustAcquire(t, m, layout, clockAt(0), named(fmt.Sprint("n", starts-1)))
			assert.LessOrEqual(t, m.reads-before, 4, "it looks at its former worker ID first")
		})
	}
}

// If hardly any worker ID is free, a search reads some at random only once. Later it reads all of them at once.
func TestStartOnAFullStoreAsksLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.occupy(t, fleet, func(worker int) bool { return worker != 7 })
		h := mustAcquire(t, m, fleet, clockAt(0))
		assert.Equal(t, 7, h.Worker())
		assert.LessOrEqual(t, m.asked, maxProbes+10)
		m.asked = 0
		_, err := acquire(t, m, fleet, clockAt(0), named("b"))
		require.NoError(t, err) // it waited until a holder was dead
		assert.LessOrEqual(t, m.asked, maxProbes+60*5)
	})
}

// Holders on a store whose answers are lost, whose saves are late, and that is wiped three times.
func TestManyHoldersRepeatNoIDWhateverTheStoreDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		layout := fleet
		layout.WorkerBits = 10
		var mu sync.Mutex
		seen := map[snowflake.ID]bool{}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		issued := make([]int, depth.Of(48, 512))
		for i := range issued {
			all.Go(func() {
				for ctx.Err() == nil {
					l, err := Acquire(ctx, m, &Options{Layout: layout, Owner: fmt.Sprint(i), Clock: clockAt(rand.N(time.Second)), Window: rand.N(time.Minute) + 10*time.Second})
					if err != nil {
						time.Sleep(rand.N(time.Second))
						continue
					}
					g, err := snowflake.NewLeased(l, nil)
					require.NoError(t, err)
					for end := time.Now().Add(rand.N(10 * time.Minute)); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(rand.N(10 * time.Second)) {
						id, err := g.NextID()
						if err != nil {
							continue
						}
						mu.Lock()
						require.False(t, seen[id], "an ID was issued twice")
						seen[id] = true
						issued[i]++
						mu.Unlock()
					}
					if rand.N(2) == 0 {
						stopRenewing(l)
					} else {
						_ = l.Release(ctx)
					}
				}
			})
		}
		for range depth.Of(20, 60) {
			time.Sleep(30 * time.Second)
			var faults []fault
			if rand.N(4) == 0 {
				faults = append(faults, silent)
			}
			if rand.N(6) == 0 {
				faults = append(faults, late(rand.N(time.Minute)))
			}
			m.becomes(faults...)
			if rand.N(13) == 0 {
				m.wipe()
			}
		}
		m.becomes()
		time.Sleep(5 * time.Minute)
		cancel()
		all.Wait()
		for _, n := range issued {
			assert.Positive(t, n)
		}
	})
}

// A holder took a worker ID before its window began, and is paused when the store is wiped. The next holder begins
// after its window.
func TestHolderThatWaitedForItsWindowRepeatsNoIDAfterAWipe(t *testing.T) {
	for _, ownClock := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.ownClock = ownClock
			layout := snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Second, TimeBits: 40}
			seen := map[snowflake.ID]bool{}
			start := func(name string, c *clock, isNew bool) *Lease {
				l, err := Acquire(t.Context(), m, &Options{Layout: layout, Owner: name, Window: MaxWindow, Clock: c, NewStore: isNew})
				require.NoError(t, err)
				return l
			}
			stampAll := func(l *Lease) { // to the end of its window
				g, err := snowflake.NewLeased(l, &snowflake.Options{BorrowAhead: MaxWindow})
				require.NoError(t, err)
				for {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					id, err := g.NextIDContext(ctx)
					cancel()
					if err != nil {
						require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, snowflake.ErrLeaseExpired), err)
						return
					}
					require.False(t, seen[id], "an ID was issued twice")
					seen[id] = true
				}
			}
			fast, slow := clockAt(skew/2-ms), clockAt(-skew/2+ms)
			a := start("a", fast, true)
			stampAll(a)
			time.Sleep(5 * time.Second)
			require.NoError(t, a.Release(t.Context()))

			begun := time.Now()
			next := make(chan *Lease)
			go func() {
				time.Sleep(MaxWindow*2/3 + time.Second - time.Since(begun)) // just after a renewal
				m.wipe()
				next <- start("c", slow, false)
			}()
			b := start("b", fast, true)
			b.op <- struct{}{} // it stands still
			stampAll(b)
			end := b.Grant().To
			c := <-next
			assert.False(t, c.Grant().From.Before(end), "%v is before %v", c.Grant().From, end)
			stampAll(c)
			b.unlock()
			stopRenewing(b)
			stopRenewing(c)
		})
	}
}
