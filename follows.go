package snowflake

import "fmt"

// Follows returns nil if a table may go on with IDs of l after IDs of old, of which last
// is the greatest in the table: if IDs of l are stamped after the tick of last has ended,
// all of them are greater. To be sure that the tick has ended, set Options.After to last.
// If generators with old still run when l begins, last has to be the greatest ID that
// they can stamp until they stop: one less than the hi of old.Range.
//
// If an ID of l can be equal to last or less, the error is an [*OverlapError] with the
// first such ID. Other errors match [ErrInvalidLayout], [ErrInvalidID] if last is no ID
// of old, and [ErrTimeExhausted] if l ends before it could begin.
func (l Layout) Follows(old Layout, last ID) error {
	for _, layout := range []Layout{old, l} {
		if err := layout.Validate(); err != nil {
			return err
		}
	}
	if err := old.Check(last); err != nil {
		return err
	}
	p := old.Decode(last)
	begin := p.Time.Add(old.Unit)
	if epoch := l.Epoch.Time(); begin.Before(epoch) {
		begin = epoch
	}
	at, err := l.instant(begin)
	if err != nil {
		return fmt.Errorf("%w, when the new layout would begin", err)
	}
	if first := ID(at.tick << l.timeShift()); first <= last {
		return &OverlapError{Last: last, First: first, Old: old, New: l}
	}
	return nil
}

// OverlapError says which ID of a new layout is not greater than the last old ID. It
// matches [ErrOverlap].
type OverlapError struct {
	Last     ID // the last ID of the old layout
	First    ID // the first ID that the new layout can stamp after Last; First <= Last
	Old, New Layout
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("%v: the old layout has issued %d, stamped %s; the first ID of the new layout, stamped %s, is %d",
		ErrOverlap, e.Last, formatTime(e.Old.Decode(e.Last).Time), formatTime(e.New.Decode(e.First).Time), e.First)
}

func (e *OverlapError) Is(target error) bool { return target == ErrOverlap }
