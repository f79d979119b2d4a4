package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
)

func windowed(d time.Duration) func(*Options) { return func(o *Options) { o.Window = d } }
func only(worker int) func(*Options)          { return func(o *Options) { o.First, o.Count = worker, 1 } }

// whole is for how long a store that lost its entries is not used.
var whole = healing(ms)

// Holders with different windows put their records back. Newcomers wait until no window can be open, and repeat no ID.
func TestWipedStoreHeals(t *testing.T) {
	for _, ownClock := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, log := newMemory(), new(logged)
			m.ownClock = ownClock
			var holders []*holder
			for i, w := range []time.Duration{time.Second, span, MaxWindow} {
				holders = append(holders, mustAcquire(t, m, fleet, clockAt(0), named(fmt.Sprint(i)), windowed(w), func(o *Options) { o.Count = 4 }))
			}
			time.Sleep(MaxWindow / 3)
			for range 3 {
				m.wipe()
				begun := time.Now()
				newcomer := make(chan *holder)
				go func() {
					newcomer <- mustAcquire(t, m, fleet, clockAt(0), named("newcomer"), doubts, func(o *Options) { o.Count, o.Logger = 4, slog.New(log) })
				}()
				for range 1000 {
					for _, h := range holders {
						h.next()
					}
					time.Sleep(whole / 1000)
				}
				n := <-newcomer
				assert.WithinRange(t, time.Now(), begun.Add(whole), begun.Add(whole+2*progress))
				assert.Equal(t, []string{"WARN lease: the store has no entries: it is new, or has lost them", "INFO lease: worker ID acquired"}, log.take())
				assert.False(t, n.Grant().From.Before(begun.Add(whole)), "its window does not begin in the past")
				n.next()
				require.NoError(t, n.Release(t.Context()))
				log.take()
			}
			for _, h := range holders {
				assert.Zero(t, h.Stats().Failures)
				assert.Zero(t, h.Stats().Replacements)
			}
		})
	}
}

func TestNewStoreIsUsedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, m := time.Now(), newMemory()
		mustAcquire(t, m, fleet, clockAt(0))
		mustAcquire(t, m, fleet, clockAt(0), named("b"), doubts)
		assert.Zero(t, time.Since(begun))
	})
}

// Newcomers whose contexts end soon, and several at once, wait for one time together.
func TestNewcomersWaitTogether(t *testing.T) {
	for _, ownClock := range []bool{false, true} {
		for _, crowd := range []int{1, 100} {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.ownClock = ownClock
				begun := time.Now()
				var all sync.WaitGroup
				for i := range crowd {
					all.Go(func() {
						for {
							ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
							l, err := Acquire(ctx, m, &Options{Layout: fleet, Owner: fmt.Sprint(i), Clock: clockAt(0)})
							cancel()
							if err == nil {
								defer stopRenewing(l)
								break
							}
							assert.ErrorIs(t, err, ErrWiped)
							assert.ErrorIs(t, err, context.DeadlineExceeded)
							time.Sleep(100 * ms) // until it is started again
						}
					})
				}
				all.Wait()
				assert.WithinRange(t, time.Now(), begun.Add(whole), begun.Add(2*whole))
				assert.Less(t, m.puts, 3*int(whole/progress)+4*crowd)
			})
		}
	}
}

// A holder that is paused while the store is wiped may stamp its window when it wakes up. The next holder of its
// worker ID begins after that.
func TestPausedHolderOfAWipedStoreKeepsItsWindow(t *testing.T) {
	for _, ownClock := range []bool{false, true} {
		for _, early := range []time.Duration{0, time.Second} { // if the record is put back, the bound in it counts
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.ownClock = ownClock
				slow := clockAt(-skew / 2)
				a := mustAcquire(t, m, plain, slow, windowed(MaxWindow), stops)
				time.Sleep(MaxWindow/2 - early)
				a.op <- struct{}{} // it stands still
				m.wipe()
				end := a.Grant().To
				b := mustAcquire(t, m, plain, clockAt(0), named("b"), doubts)
				assert.False(t, b.Grant().From.Before(end))
				b.next()
				a.unlock()
				slow.set(time.Until(end.Add(-ms)))
				time.Sleep(MaxWindow)
				require.ErrorIs(t, a.Err(), ErrLost)
				b.next()
			})
		}
	}
}

// If a record is lost alone, others take other worker IDs. When no window of it can be open, it is used again.
func TestLostRecordIsUsedAgain(t *testing.T) {
	for _, ownClock := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, log := newMemory(), new(logged)
			m.ownClock = ownClock
			two := func(o *Options) { o.Count, o.Logger = 2, slog.New(log) }
			a := mustAcquire(t, m, fleet, clockAt(0), two, windowed(MaxWindow))
			end := a.Grant().To
			stopRenewing(a.Lease)
			m.set(func() { m.drop(a.Worker()) })
			mustAcquire(t, m, fleet, clockAt(0), two, named("b"))
			log.take()
			begun := time.Now()
			_, err := acquire(t, m, fleet, clockAt(0), two, named("c"))
			var exhausted *ExhaustedError
			require.ErrorAs(t, err, &exhausted)
			assert.Len(t, exhausted.Lost, 1)
			assert.ErrorContains(t, err, fmt.Sprintf("1 unusable, such as worker %d: lease: the record is lost", a.Worker()))
			assert.LessOrEqual(t, len(log.only("is lost")), 1)
			records, err := Holders(t.Context(), m)
			require.NoError(t, err)
			assert.Equal(t, Lost, records[a.Worker()].State)
			id, err := fleet.Encode(snowflake.Parts{Worker: a.Worker(), Time: end.Add(-ms)})
			require.NoError(t, err)
			_, err = Whois(t.Context(), m, id)
			require.ErrorIs(t, err, ErrForgotten)

			var c *holder
			for c == nil && time.Since(begun) < whole+20*span {
				c, err = acquire(t, m, fleet, clockAt(0), two, named("c"))
			}
			require.NoError(t, err)
			assert.WithinRange(t, time.Now(), begun.Add(whole), begun.Add(whole+20*span))
			assert.Equal(t, a.Worker(), c.Worker())
			assert.False(t, c.Grant().From.Before(end))
			c.next()
			_, err = Whois(t.Context(), m, id)
			require.ErrorIs(t, err, ErrForgotten)
		})
	}
}

// If the store loses its entries between a newcomer's look and its save, the newcomer does not get the worker ID.
func TestNewcomerLooksAgainAfterItsSave(t *testing.T) {
	for n, lost := range []func(m *memory){func(m *memory) { clear(m.entries) }, func(m *memory) { m.drop(0) }, func(m *memory) { m.drop(0) }} {
		synctest.Test(t, func(t *testing.T) {
			dir, change := t.TempDir(), func(*Options) {}
			if n == 2 {
				change = withCopy(dir)
			}
			m := newMemory()
			mustAcquire(t, m, fleet, clockAt(0), only(1))
			once, begun := sync.Once{}, time.Now()
			var a *holder
			m.onSave = func() {
				once.Do(func() {
					m.set(func() { m.onSave = nil })
					a = mustAcquire(t, m, fleet, clockAt(0), named("a"), only(0))
					m.set(func() { lost(m) })
				})
			}
			_, err := acquire(t, m, fleet, clockAt(0), named("b"), only(0), doubts, change)
			require.ErrorIs(t, err, ErrExhausted, "a has put its record back")
			require.NotNil(t, a)
			a.next()
			left, err := File(dir).List(t.Context(), recordPrefix)
			require.NoError(t, err)
			assert.Empty(t, left, "nor does its local copy have it")
			assert.Zero(t, a.Stats().Replacements)
			assert.Less(t, time.Since(begun), whole+10*span)
		})
	}
}

// slowMark is a store that makes marks a third of a window late.
type slowMark struct{ *memory }

func (s slowMark) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	if strings.HasPrefix(key, markPrefix) {
		time.Sleep(span / 3)
	}
	return s.memory.Put(ctx, key, old, value)
}

// takesFirst lets "a" take worker ID 0 before the next save in m, and lets m lose its entries then.
func (h *holder) takesFirst(t *testing.T, m *memory) {
	mustAcquire(t, m, fleet, clockAt(0), only(1))
	m.onSave = func() {
		m.set(func() { m.onSave = nil })
		*h = *mustAcquire(t, m, fleet, clockAt(0), named("a"), only(0))
		m.wipe()
	}
}

// A holder that renews between a newcomer's save and its second look puts its record back, and loses nothing.
func TestHolderReplacesARecordThatIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a := newMemory(), new(holder)
		a.takesFirst(t, m)
		_, err := acquire(t, slowMark{m}, fleet, clockAt(0), named("b"), only(0), doubts)
		require.ErrorIs(t, err, ErrExhausted)
		a.next()
		assert.Equal(t, "a", m.record(0).Owner)
		assert.Zero(t, a.Stats().Replacements)
	})
}

// mute is a store that stores a first record and does not say so.
type mute struct {
	*memory
	stored func()
}

func (s mute) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	e, err := s.memory.Put(ctx, key, old, value)
	if err == nil && old == "" && strings.HasPrefix(key, recordPrefix) {
		s.stored()
		return Entry{}, errDown
	}
	return e, err
}

// A newcomer that gives up, and has not noticed that the store lost its entries, removes its record. So the holder whose
// record was lost does not take it for a later holder's.
func TestNewcomerThatGivesUpLeavesNoRecordInAWipedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a := newMemory(), new(holder)
		a.takesFirst(t, m)
		ctx, giveUp := context.WithCancel(t.Context())
		_, err := Acquire(ctx, mute{m, giveUp}, &Options{Layout: fleet, Owner: "b", Clock: clockAt(0), NewStore: true, Count: 1})
		require.Error(t, err)
		time.Sleep(span / 100)
		assert.Empty(t, m.entries[recordKey(0)].Version)
		a.next()
		time.Sleep(span)
		a.next()
		assert.Equal(t, "a", m.record(0).Owner)
		assert.Zero(t, a.Stats().Replacements)
		assert.Zero(t, a.Stats().Failures)
	})
}

// A holder whose window has ended may have been replaced, so it does not put its record back.
func TestHolderWhoseWindowEndedDoesNotPutItsRecordBack(t *testing.T) {
	for _, ownClock := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.ownClock = ownClock
			a := mustAcquire(t, m, plain, clockAt(0), stops)
			m.set(func() { m.down = true })
			time.Sleep(span + ms)
			m.wipe()
			m.set(func() { m.down = false })
			time.Sleep(span)
			assert.ErrorIs(t, a.Err(), ErrLost)
			assert.Zero(t, m.count())
		})
	}
}

// By the clock of its host, the process stood still for a moment. The engine's clock says that it was longer than a window.
func TestEngineSaysThatTheWindowIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.ownClock = true
		a := mustAcquire(t, m, plain, clockAt(0), stops)
		m.set(func() { m.drop(0); m.offset = span })
		time.Sleep(span)
		assert.ErrorIs(t, a.Err(), ErrLost)
	})
}

// An earlier holder, which does not know that it was replaced, puts its record back. The later holder finds it out,
// and goes on.
func TestLaterHolderReplacesAnEarlierOnesRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a := mustAcquire(t, m, plain, clockAt(0))
		old := m.record(0)
		stopRenewing(a.Lease)
		b := mustAcquire(t, m, plain, clockAt(0), named("b"), func(o *Options) { o.Logger = slog.New(new(logged)) })
		b.next()
		m.set(func() { m.change(0, func(r *Record) { *r = old; r.Saves++ }) })
		time.Sleep(span)
		assert.Equal(t, "b", m.record(0).Owner)
		b.next()
		assert.Zero(t, b.Stats().Replacements)
	})
}

// If another holder's window overlaps, the holder stops at once, says in which span IDs may have repeated, and takes
// another worker ID.
func TestOverlapStopsAtOnce(t *testing.T) {
	for _, onLoss := range []OnLoss{Replace, Stop} {
		synctest.Test(t, func(t *testing.T) {
			m, log := newMemory(), new(logged)
			h := mustAcquire(t, m, fleet, clockAt(0), windowed(time.Minute), func(o *Options) { o.Logger, o.OnLoss = slog.New(log), onLoss })
			h.next()
			was := h.Grant()
			m.set(func() {
				m.change(h.Worker(), func(r *Record) { r.Token, r.Owner = "other", "b" })
				m.refuses = map[int]bool{}
				for worker := range 256 {
					m.refuses[worker] = worker != h.Worker()
				}
			})
			log.take()
			time.Sleep(time.Minute / 3)
			h.refused(ErrLost)
			assert.Contains(t, log.take(), "ERROR lease: IDs may have repeated: another holder may have stamped the same time")
			assert.True(t, h.Grant().To.Equal(was.From))
			if onLoss == Replace {
				m.set(func() { m.refuses = nil })
				time.Sleep(time.Minute)
				assert.NotEqual(t, was.Worker, h.next().Worker)
			}
		})
	}
}

// occupy gives each worker ID of a layout, for which is returns true, to a live holder.
func (m *memory) occupy(t *testing.T, layout snowflake.Layout, is func(worker int) bool) {
	for worker := range 1 << layout.WorkerBits {
		if is(worker) {
			r := Record{Worker: worker, Layout: layout}.take(window{}, Record{Token: "x", Owner: fmt.Sprint(worker), Window: time.Hour}, time.Now())
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
		m := &counting{memory: newMemory()}
		m.occupy(t, fleet, func(worker int) bool { return worker != 7 })
		h := mustAcquire(t, m, fleet, clockAt(0))
		assert.Equal(t, 7, h.Worker())
		assert.LessOrEqual(t, m.asked, maxProbes+10)
		m.asked = 0
		_, err := acquire(t, m, fleet, clockAt(0), named("b"))
		require.ErrorIs(t, err, ErrExhausted)
		assert.LessOrEqual(t, m.asked, maxProbes+7*5)
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
			m.set(func() {
				m.loseAnswer, m.delay = rand.N(4) == 0, 0
				if rand.N(6) == 0 {
					m.delay = rand.N(time.Minute)
				}
				if rand.N(13) == 0 {
					clear(m.entries)
				}
			})
		}
		m.set(func() { m.loseAnswer, m.delay = false, 0 })
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

// A lease that was given NewStore has used the store since. If it replaces a lost worker ID after the store was wiped, it waits.
func TestReplacementDoesNotTakeAWipedStoreForNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, fleet, clockAt(0))
		h.op <- struct{}{} // it stands still until its window has ended
		time.Sleep(2 * span)
		m.wipe()
		h.unlock()
		time.Sleep(whole / 2)
		assert.Zero(t, h.Stats().Replacements)
		time.Sleep(whole)
		assert.EqualValues(t, 1, h.Stats().Replacements)
	})
}

// While the record was on its way, another process may have taken the worker ID, and the store
// may have lost that record, too.
func TestRecordThatIsPutBackTooLateIsLost(t *testing.T) {
	for name, loseAnswer := range map[string]bool{"answered": false, "the answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				h := mustAcquire(t, m, plain, clockAt(0), stops)
				m.set(func() {
					m.drop(0)
					saves := 0
					m.onSave = func() {
						switch saves++; saves {
						case 1: // the renewal, which finds that the record is gone
							m.set(func() { m.failSaves = map[bool]int{true: 1}[loseAnswer] })
						case 2:
							time.Sleep(5 * time.Minute) // the process stands still
						}
					}
				})
				time.Sleep(6 * time.Minute)
				h.refused(ErrLost)
			})
		})
	}
}
