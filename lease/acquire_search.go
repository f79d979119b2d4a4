package lease

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/wiped"
)

// search looks for a worker ID that can be taken. It reads the worker ID that the owner had
// last, then some at random, and all of them only if these are not free.
type search struct {
	needs
	round
	saves
	line   book.Line // with a limit for each request
	full   error     // why the last round found nothing to take; nil if it did, or none has ended
	probes int       // how many worker IDs were read at random
	shared time.Time // when share last asked the store
}

// needs is a search's view of the lease for which it searches.
type needs struct {
	o        *Options
	known    *known
	clones   cloning
	offline  bool         // the lease continues while the store is away
	accepted *atomic.Bool // AcceptLeap was called
	ends     time.Time    // the end of the window of the lost worker ID; zero if none was lost
	log      reporter
}

// reporter logs the waits of a search.
type reporter interface {
	waits(left time.Duration, shut wiped.ShutDoor) // see wiped.Log
	shut(err error, until time.Time)
	opened()

	missing(worker int)      // the record of a worker ID is lost
	namesake(process string) // another live process has the owner

	// rests is called before the search waits because it found nothing to take, as err says, and
	// rested after that. The time for the search ends at until, if that is not zero.
	rests(err error, until time.Time)
	rested(err error)
}

// round has the results of one round, which begins with the door and the engine's time. It is
// forgotten when the round ends.
type round struct {
	scan
	door     protocol.Door
	now      time.Time       // the engine's; zero if it has no clock
	asked    protocol.Moment // when now was read
	owner    Entry           // of the owner's last worker ID, if it can be read
	badOwner bool            // the owner's entry cannot be read
	races    int             // how often other processes were quicker
}

// scan has the worker IDs that a round has read.
type scan struct {
	read  map[int]protocol.Record // nil before a round begins
	bad   map[int]error           // worker IDs that are unusable
	left  time.Duration           // until the first lost record may be replaced; 0 if none is lost
	whole bool                    // all worker IDs were read
}

// saves are the saves of a search that took no worker ID.
type saves struct {
	tried     []attempt // that may still be made, or took a worker ID in vain
	failures  []error   // other than conflicts
	conflicts int       // in turn, without a rest between them
}

// attempt is a record whose save takes a worker ID.
type attempt struct {
	candidate
	window protocol.Window
	wanted protocol.Record
	begun  book.Reading // when it was made
	born   uint64       // the machine's generation
	unsure error        // why its save failed, if it may still be made; else nil
}

func newSearch(s book.Line, n needs) *search {
	n.known.searching = s.Read().At
	return &search{needs: n, line: s}
}

const (
	// maxProbes is the number of worker IDs that a search reads at random.
	maxProbes = 28

	// maxRaces is the number of conflicts that end a round.
	maxRaces = 8

	// maxAllRaces is the number of conflicts without a rest that end the search. In a crowd, each of
	// them is another process's success. If there are so many, the store may refuse every save.
	maxAllRaces = 16

	// maxFailures is the number of saves that may fail; the next failure ends the search.
	maxFailures = 2
)

// engineNow returns the engine's time, zero if it has no clock.
func (s *search) engineNow() time.Time {
	if s.now.IsZero() {
		return s.now
	}
	return s.now.Add(s.line.Read().At.Sub(s.asked.At))
}

// clocks returns the readings of both clocks.
func (s *search) clocks() protocol.Clocks {
	return protocol.Clocks{Own: s.line.Read().Own, Engine: s.engineNow()}
}

// silent returns how long a record is known not to have been renewed when it was read.
func (s *search) silent(r protocol.Record) time.Duration {
	return s.known.Silent(r, s.asked, s.clocks())
}

// because adds the last failure of a save to err, which is a context's.
func (s *saves) because(err error) error {
	if n := len(s.failures); n > 0 && book.IsTimeout(err) {
		return book.Once(fmt.Errorf("%w: %w", s.failures[n-1], err))
	}
	return err
}

// raced counts a conflict. It returns an error if there were so many that the search is to end.
func (s *saves) raced(err error) error {
	if s.conflicts++; s.conflicts < maxAllRaces {
		return nil
	}
	return fmt.Errorf("the store has refused %d saves in turn: %w", s.conflicts, err)
}

// newcomer returns the search as one that waits for the store's door.
func (s *search) newcomer() wiped.Newcomer {
	return wiped.Newcomer{
		Line:         s.line,
		Watch:        &s.known.Watch,
		Layout:       s.o.Layout,
		WindowLength: s.o.Window,
		NewStore:     s.o.NewStore && !s.known.inUse,
		Log:          wiped.Log{Waits: s.log.waits, Shut: s.log.shut, Opened: s.log.opened},
		Foreign:      func(worker int, has snowflake.Layout) error { return foreign(worker, has, s.o.Layout) },
		Raced:        s.raced,
		Rested: func() {
			s.conflicts, s.known.searching = 0, s.line.Read().At // the wait for a worker ID begins when the door is open
		},
	}
}
