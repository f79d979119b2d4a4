//go:build go1.25

package fleet

import (
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// The troubles, by their names in the table of docs/operations.md. Their causes end, and the fleet
// recovers within their bounds afterwards.
const (
	OneCrash    Kind = "crash"
	Kills       Kind = "kills in a row"
	OnePause    Kind = "pause"
	Outage      Kind = "outage"
	Wipe        Kind = "wipe"
	WipeOutage  Kind = "wipe, then outage"
	WipePause   Kind = "wipe, then pause"
	WipeClock   Kind = "wipe with a wrong clock of the engine"
	EngineClock Kind = "wrong clock of the engine"
	ReaderClock Kind = "wrong clock of a reader"
	HolderClock Kind = "wrong clock of a holder"
	LostAnswers Kind = "lost answers"
	FullRange   Kind = "full range of worker IDs"
	OutageWipe  Kind = "empty store after an outage"
	Unreadable  Kind = "one unreadable entry"
	ShortStarts Kind = "starts shorter than a window"

	// Changes of the fleet, with windows of 30 s, during which all stays well.
	Deployment      Kind = "deployment"
	DeploymentFloor Kind = "deployment with FloorEvery"
	Growth          Kind = "growth"
	GrowthFloor     Kind = "growth with FloorEvery"
)

// healed is the longest time for which windows may be open under lost records.
const healed = lease.MaxWindow + time.Minute

// Bound limits a time by a number of windows, and more.
type Bound struct {
	Windows float64
	Plus    time.Duration // added to the windows
	Leap    bool          // Options.MaxLeap is added
	Floor   bool          // Options.FloorEvery is added
	Lag     bool          // the bound limits the watermark's lag at all times
}

func (b Bound) String() string {
	windows := fmt.Sprintf("%v windows", b.Windows)
	if b.Windows == 1 {
		windows = "a window"
	}
	switch {
	case b == Bound{}:
		return "at once"
	case b.Floor:
		return fmt.Sprintf("lag of `FloorEvery` and %v s", b.Plus.Seconds())
	case b.Lag:
		return "lag of two thirds of a window"
	case b.Leap:
		return windows + " and `MaxLeap`"
	case b.Plus == 0:
		return windows
	}
	return fmt.Sprintf("%v minutes and %s", b.Plus.Minutes(), windows)
}

// of returns the bound in a run.
func (b Bound) of(w *world) time.Duration {
	d := time.Duration(b.Windows*float64(w.Window)) + b.Plus
	if b.Leap {
		d += w.maxLeap()
	}
	if b.Floor {
		d += w.floorEvery(w.Window)
	}
	return d
}

// Limits are the bounds of a trouble. They count from the end of its cause; after kills in a row,
// the watermark's counts from the first kill.
type Limits struct {
	Trouble Kind
	Issue   Bound // until each live process issues IDs without a gap
	Start   Bound // until a newcomer has a worker ID, if one is free

	// Watermark limits the time until the watermark lags by less than two windows for good, if
	// there is a holder. With Bound.Lag it limits the lag itself.
	Watermark Bound

	Alone bool // the trouble affects one process, and all others issue IDs without a gap
}

// after returns limits with the same bound for each part.
func after(t Kind, windows float64, plus time.Duration) Limits {
	b := Bound{Windows: windows, Plus: plus}
	return Limits{Trouble: t, Issue: b, Start: b, Watermark: b}
}

// alone returns the limits of a trouble that affects one process.
func alone(t Kind, issue Bound, start, watermark float64) Limits {
	return Limits{t, issue, Bound{Windows: start}, Bound{Windows: watermark}, true}
}

// throughout returns the limits of a trouble during which all is well.
func throughout(t Kind, lag Bound) Limits { return Limits{Trouble: t, Watermark: lag} }

// The bounds of the watermark's lag during deployments and growth.
var (
	mostLag      = Bound{Windows: 2.0 / 3, Lag: true}
	mostLagFloor = Bound{Plus: 3 * time.Second, Floor: true, Lag: true}
)

// Bounds are the limits of all troubles. docs/operations.md states them, too.
var Bounds = []Limits{
	alone(OneCrash, Bound{Windows: 2}, 2, 1),
	alone(Kills, Bound{Windows: 2}, 2, 1),
	alone(OnePause, Bound{Windows: 2}, 2, 1),
	after(Outage, 3, 0),
	after(Wipe, 3, healed),
	after(WipeOutage, 3, healed),
	after(WipePause, 3, healed),
	after(WipeClock, 3, healed),
	after(EngineClock, 2, 0),
	alone(ReaderClock, Bound{Windows: 1}, 1, 1),
	alone(HolderClock, Bound{Windows: 2, Leap: true}, 2, 2),
	alone(LostAnswers, Bound{Windows: 2}, 2, 1),
	after(FullRange, 2, 0),
	after(OutageWipe, 3, healed),
	after(Unreadable, 3, healed),
	after(ShortStarts, 3, 0),
	throughout(Deployment, mostLag),
	throughout(DeploymentFloor, mostLagFloor),
	throughout(Growth, mostLag),
	throughout(GrowthFloor, mostLagFloor),
}

func limitsOf(t Kind) Limits {
	for _, l := range Bounds {
		if l.Trouble == t {
			return l
		}
	}
	panic(t)
}
