package lease

import (
	"context"
	"errors"
	"slices"
	"time"
)

// newSearch returns a search of the lease for a worker ID.
func (l *Lease) newSearch(ctx context.Context) *search {
	s := wire{ctx, l.store, l.asker(), l.searchTrip}
	return newSearch(s, needs{&l.o, &l.known, l.cloning, &l.accepted, l.Grant().To, searchLog{l}})
}

// searchTrip is how long a search waits for an answer. If the search is to replace a lost
// worker ID, it waits no longer than a renewal does.
func (l *Lease) searchTrip() time.Duration {
	if l.trouble() != nil {
		return l.o.trip()
	}
	return l.o.patience()
}

// tripped notes that one request of a search failed. If the search is to replace a lost
// worker ID, calls get this error at once, instead of waiting until the whole search has
// failed.
func (l *Lease) tripped(err error) {
	l.mu.Lock()
	lost := l.loss
	if lost != nil {
		l.blame(unreplaced(lost, err), true)
		l.tell()
	}
	l.mu.Unlock()
	if lost != nil {
		l.log.unreplaced(l, err)
	}
}

// hold takes over the worker ID of an attempt whose record was saved.
func (l *Lease) hold(s line, a attempt, saved record) {
	a.window.to = saved.bound(a.window.seq)
	l.known.horizon.reached(saved.Bound(), a.begun.steady())
	h := &hold{rules: l.o.rules(), own: saved, window: a.window, born: a.born, passed: l.known.passed, horizon: l.known.horizon,
		heard: heard{renewed: a.begun.at, read: a.begun.own, at: s.read().steady()}}
	l.known.inUse = true
	l.mu.Lock()
	l.stats.Renewed = a.begun.at
	l.mu.Unlock()
	<-l.slot
	l.give(h)
}

// farewell bounds how long an Acquire that failed waits until its worker IDs are freed. After
// that, they are freed in the background.
const farewell = 100 * time.Millisecond

// giveBack frees, in the background, the worker IDs that a search took, except used. (An
// older attempt to take the used worker ID cannot be made any more.) For a save that may
// still be made, it looks again and again. The channel is closed after the first look.
func (l *Lease) giveBack(ctx context.Context, tried []attempt, used int) <-chan struct{} {
	looked := make(chan struct{})
	tried = slices.DeleteFunc(tried, func(a attempt) bool { return a.record.Worker == used })
	if len(tried) == 0 {
		close(looked)
		return looked
	}
	freeLater(ctx, l, tried, looked)
	return looked
}

// freeLater frees the worker IDs of attempts in the background.
var freeLater = func(ctx context.Context, l *Lease, tried []attempt, looked chan<- struct{}) {
	go l.freeAll(ctx, tried, looked)
}

// freeAll frees the worker IDs of attempts. It closes looked after the first look.
func (l *Lease) freeAll(ctx context.Context, tried []attempt, looked chan<- struct{}) {
	ctx, cancel := context.WithTimeout(ctx, l.o.patience())
	defer cancel()
	tried = l.free(l.line(ctx), tried)
	close(looked)
	for pause := l.o.patience() / 8; len(tried) > 0 && sleep(ctx, pause) == nil; pause *= 2 {
		tried = l.free(l.line(ctx), tried)
	}
}

// searchLog is what the lease does with what a search reports.
type searchLog struct{ l *Lease }

// opened is called when the door is open, or could not be looked at.
func (s searchLog) opened() { s.waitsUntil(time.Time{}) }

func (s searchLog) shut(err error, until time.Time) {
	s.waitsUntil(until)
	s.l.tripped(err)
}

func (s searchLog) waitsUntil(t time.Time) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.l.stats.WaitsUntil = t
}

func (s searchLog) waits(left time.Duration, shut shutDoor) { s.l.log.waits(s.l, left, shut) }

func (s searchLog) missing(worker int) { s.l.log.missing(s.l, worker) }

func (s searchLog) rests(err error, until time.Time) {
	if s.l.trouble() == nil && errors.Is(err, ErrExhausted) {
		s.l.log.unacquired(s.l, err, until)
	}
}

func (s searchLog) rested(err error) {
	if s.l.trouble() != nil { // a lost worker ID is to be replaced
		s.l.log.unreplaced(s.l, err)
	}
}
