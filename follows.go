package snowflake

import "fmt"

// Follows returns nil if IDs of l may follow those of old in one table: if no ID
// of l can equal or lie below last, the greatest ID of old, when l's are stamped
// after the tick of last has ended. It is decided exactly: otherwise the error is
// an [*OverlapError] with two IDs, last and the first ID of l, which is not
// above it. A later start makes no smaller IDs.
//
// To be sure that the tick has ended, give Options.After last; it costs nothing
// more. If old goes on while l has begun, last is the greatest ID that old can
// stamp until it ends: one less than the hi of old.Range.
//
// Other errors match [ErrInvalidLayout], [ErrInvalidID] if last is no ID of old,
// and [ErrTimeExhausted] if l ends before it could begin.
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
		return err
	}
	if first := ID(at.tick << l.timeShift()); first <= last {
		return &OverlapError{Last: last, First: first, Old: old, New: l}
	}
	return nil
}

// OverlapError says which ID of a new layout does not lie above the last ID of an
// old one. It matches [ErrOverlap].
type OverlapError struct {
	Last     ID // the last one of the old layout
	First    ID // the first that the new layout can stamp after it; First <= Last
	Old, New Layout
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("%v: the old one has issued %d, stamped %s; the new one's first, stamped %s, is %d",
		ErrOverlap, e.Last, formatTime(e.Old.Decode(e.Last).Time), formatTime(e.New.Decode(e.First).Time), e.First)
}

// Is reports whether target is [ErrOverlap].
func (e *OverlapError) Is(target error) bool { return target == ErrOverlap }
