package k8slease_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

// remote is a server's clock. It is ahead of ours and tells whole seconds.
type remote struct {
	lead  time.Duration
	drift float64
	since time.Time
}

func (r *remote) now() time.Time {
	passed := time.Since(r.since)
	return r.since.Add(r.lead + passed + time.Duration(float64(passed)*r.drift))
}

// ask makes a request. The server answers after the time there, and the answer takes the time back.
func (r *remote) ask(c *k8slease.Clock, there, back time.Duration) {
	asked := time.Now()
	time.Sleep(there)
	date := r.now().Truncate(time.Second)
	time.Sleep(back)
	c.Observe(date, asked, time.Now())
}

func (r *remote) off(t *testing.T, c *k8slease.Clock) time.Duration {
	t.Helper()
	now, own := c.Now()
	if !own {
		t.Fatal("it is not the server's time")
	}
	return now.Sub(r.now()).Abs()
}

// The clock is off by no more than it says: by half a second and half of the round trip at first, and
// never by more.
func TestClockFollowsTheServers(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
			c := k8slease.NewClock()
			time.Sleep(upTo(time.Hour))
			r := &remote{lead: upTo(48*time.Hour) - 24*time.Hour, drift: (random.Float64() - 0.5) / 2000, since: time.Now()}
			best := time.Hour
			for i := range 300 {
				there, back := upTo(100*time.Millisecond), upTo(100*time.Millisecond)
				r.ask(c, there, back)
				off, bound := r.off(t, c), c.Off()
				if most := time.Second/2 + (there+back)/2; i == 0 && bound > most {
					t.Fatalf("seed %d: after one answer it says that it is off by up to %v, not %v", seed, bound, most)
				}
				if off > bound {
					t.Fatalf("seed %d: after %d answers it is off by %v, and says %v", seed, i+1, off, bound)
				}
				best = min(best, bound)
				time.Sleep(upTo(3 * time.Second))
				if off := r.off(t, c); off > bound+5*time.Millisecond {
					t.Fatalf("seed %d: a while after an answer it is off by %v", seed, off)
				}
			}
			if best > 200*time.Millisecond {
				t.Errorf("seed %d: 300 answers have made it no better than %v", seed, best)
			}
		})
	}
}

// If the server's clock is set, or another server answers, the clock follows at once.
func TestClockFollowsAServerClockThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := k8slease.NewClock()
		r := &remote{since: time.Now()}
		for range 50 {
			r.ask(c, time.Millisecond, time.Millisecond)
			time.Sleep(70 * time.Millisecond)
		}
		for _, lead := range []time.Duration{time.Hour, -time.Hour, 0, 5 * time.Second} {
			r.lead = lead
			r.ask(c, time.Millisecond, time.Millisecond)
			if off := r.off(t, c); off > 502*time.Millisecond {
				t.Errorf("after the server's clock was set it is off by %v", off)
			}
		}
	})
}

func TestClockIsOursBeforeAnyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := k8slease.NewClock()
		time.Sleep(time.Hour)
		if now, own := c.Now(); own || !now.Equal(time.Now()) {
			t.Errorf("it reads %v, which it says is the server's: %v", now, own)
		}
	})
}
