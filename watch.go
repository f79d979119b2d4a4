package snowflake

import "time"

// maxStall is a call's longest wait for a clock that runs at less than half of its speed, or stands
// still. It is longer than the steps of any coarse clock (up to 16 ms on Windows).
const maxStall = 50 * time.Millisecond

// minRetry is the shortest wait for a clock that did not move during the last wait. If it does not
// move again, the next wait is twice as long, up to maxRetry.
const (
	minRetry = 100 * time.Microsecond
	maxRetry = time.Millisecond
)

// watch has the clock's progress since the start of a call's first wait.
type watch struct {
	started bool          // the call has waited, or waits
	asleep  bool          // the call waits
	cut     bool          // the wait ends early, for a look at the clock
	slow    bool          // after maxStall or longer, the clock has run at less than half of its speed
	stalled bool          // slow, and the clock has not gone back
	since   time.Duration // the start of the first wait, in monotonic time
	from    instant       // the clock's reading at since
	slept   time.Duration // the start of the last wait
	reading instant       // the clock's reading at slept
	retry   time.Duration // the least length of the next wait
}

// start notes the start of a wait at mono, when the clock reads now. cut: see the field.
func (w *watch) start(now instant, mono time.Duration, cut bool) {
	if !w.started {
		w.started, w.since, w.from = true, mono, now
	}
	w.asleep, w.reading, w.slept, w.cut = true, now, mono, cut
}

// checkIn returns the time until a call that begins to sleep at mono looks at the clock. It looks
// after maxStall, and each time that its wait has doubled.
func (w *watch) checkIn(mono time.Duration) time.Duration {
	waited := time.Duration(0)
	if w.started {
		waited = mono - w.since
	}
	if waited < maxStall {
		return max(maxStall-waited, maxRetry)
	}
	return waited
}

// end notes the end of a wait at mono, when the clock reads now. It returns the wait's length.
func (w *watch) end(l Layout, now instant, mono time.Duration) time.Duration {
	if now == w.reading {
		w.retry = min(max(minRetry, 2*w.retry), maxRetry)
	} else {
		w.retry = 0
	}
	waited, passed := mono-w.since, l.time(now).Sub(l.time(w.from))
	w.asleep = false
	w.slow = waited >= maxStall && passed < waited/2
	w.stalled = w.slow && passed >= 0
	return mono - w.slept
}

// progress has a call's questions, and their answers.
type progress struct {
	asks   int           // questions to the policy since the last wait
	agreed Action        // the policy's last choice
	by     time.Duration // the largest Backward.By for which agreed holds

	// The first wait for the clock that the policy agreed to.
	since time.Duration // its start, in monotonic time
	first time.Duration // its length; 0 before it

	extends  int    // questions to the lease
	extended *Grant // the grant of the last of them
}

// mayWait reports whether a wait for the clock may begin: a call's waits for such a clock last at
// most twice the first of them in total, or maxStall if that is more.
func (p *progress) mayWait(wait, mono time.Duration) bool {
	if p.first == 0 {
		p.since, p.first = mono, max(wait, 1)
	}
	total := mono - p.since + wait
	return total <= maxStall || total/2 <= p.first
}
