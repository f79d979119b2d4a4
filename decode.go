package snowflake

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

// Parts holds the fields of an ID. JSON and logs omit a clock sequence or datacenter of 0.
// encoding/json refuses a Time outside the years 0 to 9999, as an ID of another layout can have.
type Parts struct {
	Time       time.Time `json:"time"` // UTC, start of the tick
	ClockSeq   int       `json:"clockSeq,omitempty"`
	Datacenter int       `json:"datacenter,omitempty"`
	Worker     int       `json:"worker"`
	Sequence   int       `json:"sequence"`
}

// String returns p as time=2026-11-21T08:30:00.000Z worker=7 sequence=42.
func (p Parts) String() string {
	var buf [128]byte
	b := append(append(buf[:0], "time="...), formatTime(p.Time)...)
	for key, v := range p.numbers {
		b = append(append(append(b, ' '), key...), '=')
		b = strconv.AppendInt(b, int64(v), 10)
	}
	return string(b)
}

// LogValue returns p as a group for log/slog, with the keys of JSON.
func (p Parts) LogValue() slog.Value {
	at := slog.Time("time", p.Time)
	if y := p.Time.Year(); y < 0 || y > 9999 { // for which slog would write invalid JSON
		at = slog.String("time", formatTime(p.Time))
	}
	attrs := append(make([]slog.Attr, 0, 5), at)
	for key, v := range p.numbers {
		attrs = append(attrs, slog.Int(key, v))
	}
	return slog.GroupValue(attrs...)
}

// numbers yields the fields after the time, except the fields that are left out.
func (p Parts) numbers(yield func(key string, v int) bool) {
	_ = (p.ClockSeq == 0 || yield("clockSeq", p.ClockSeq)) &&
		(p.Datacenter == 0 || yield("datacenter", p.Datacenter)) &&
		yield("worker", p.Worker) && yield("sequence", p.Sequence)
}

// Decode returns the fields of an ID of [DefaultLayout]. See [Layout.Decode].
func Decode(id ID) (p Parts) {
	// This is Layout.Decode written out, because reading a Layout's fields would double the cost.
	p.Sequence = int(id & (1<<12 - 1))
	p.Worker = int(id >> 12 & (1<<10 - 1))
	p.Time = time.UnixMilli(int64(DefaultEpoch + Epoch(id>>22))).UTC()
	return p
}

// Decode returns the fields of id. It accepts every ID: a negative ID decodes to a time before the
// epoch, and an ID with more bits than the layout to a time at or past [Layout.Expires].
func (l Layout) Decode(id ID) (p Parts) {
	v := int64(id)
	if l.WorkerLast {
		v, p.Worker = cut(v, l.WorkerBits)
		v, p.Sequence = cut(v, l.SequenceBits)
	} else {
		v, p.Sequence = cut(v, l.SequenceBits)
		v, p.Worker = cut(v, l.WorkerBits)
	}
	v, p.Datacenter = cut(v, l.DatacenterBits)
	v, p.ClockSeq = cut(v, l.ClockSeqBits)
	p.Time = l.Epoch.after(v, l.Unit)
	return p
}

// cut splits off the lowest bits of v.
func cut(v int64, bits uint8) (rest int64, field int) {
	return v >> bits, int(v & lowBits(bits))
}

// Encode returns the ID with the fields p, and with the time rounded down to a tick. If the time is
// not the layout's, the error matches [ErrBeforeEpoch] or [ErrTimeExhausted]; if another field does
// not fit, it is a [*FieldRangeError].
func (l Layout) Encode(p Parts) (ID, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	if err := l.checkFields(p.ClockSeq, p.Datacenter, p.Worker); err != nil {
		return 0, err
	}
	if err := checkField(fieldSequence, p.Sequence, l.SequenceBits); err != nil {
		return 0, err
	}
	at, err := l.instant(p.Time)
	if err != nil {
		return 0, err
	}
	return l.fixed(p.ClockSeq, p.Datacenter, p.Worker) |
		ID(at.tick<<l.timeShift()|int64(p.Sequence)<<l.sequenceShift()), nil
}

// fixed returns the bits of an ID that stay the same from tick to tick.
func (l Layout) fixed(clockSeq, datacenter, worker int) ID {
	return ID(int64(clockSeq)<<l.clockSeqShift() | int64(datacenter)<<l.datacenterShift() | int64(worker)<<l.workerShift())
}

// checkFields returns a [*FieldRangeError] if one of the fields does not fit.
func (l Layout) checkFields(clockSeq, datacenter, worker int) error {
	if err := checkField(fieldClockSeq, clockSeq, l.ClockSeqBits); err != nil {
		return err
	}
	if err := checkField(fieldDatacenter, datacenter, l.DatacenterBits); err != nil {
		return err
	}
	return checkField(fieldWorker, worker, l.WorkerBits)
}

func checkField(name string, v int, bits uint8) error {
	if v < 0 || int64(v) > lowBits(bits) {
		return &FieldRangeError{Field: name, Value: v, Max: int(lowBits(bits))}
	}
	return nil
}

// The fields' names in errors.
const (
	fieldClockSeq   = "clock sequence"
	fieldDatacenter = "datacenter"
	fieldWorker     = "worker"
	fieldSequence   = "sequence"
)

// FieldRangeError is the error of New, Encode or a call if a value does not fit a field of an ID.
// For a worker or a datacenter it matches [ErrWorkerRange], for a clock sequence or a sequence
// [ErrInvalidID].
type FieldRangeError struct {
	Field string // "clock sequence", "datacenter", "worker" or "sequence"
	Value int
	Max   int // the largest value that fits; the smallest is 0
}

func (e *FieldRangeError) Error() string {
	if e.Max == 0 {
		return fmt.Sprintf("snowflake: %s %d does not fit the layout, which has no bits for it: only 0 fits", e.Field, e.Value)
	}
	return fmt.Sprintf("snowflake: %s %d does not fit the layout, which has room for 0 to %d", e.Field, e.Value, e.Max)
}

func (e *FieldRangeError) Is(target error) bool {
	if e.Field == fieldWorker || e.Field == fieldDatacenter {
		return target == ErrWorkerRange
	}
	return target == ErrInvalidID
}

// Range returns the bounds of the IDs that were stamped in [from, to): lo <= id < hi if and only if
// from <= Decode(id).Time < to. If a time does not lie between Epoch and Expires, the error matches
// [ErrBeforeEpoch] or [ErrTimeExhausted]; if from is later than to, [ErrInvalidRange]. In a layout
// of 63 bits, to must not be in the last tick, because no ID is above the last.
func (l Layout) Range(from, to time.Time) (lo, hi ID, err error) {
	if err := l.Validate(); err != nil {
		return 0, 0, err
	}
	if from.After(to) {
		return 0, 0, fmt.Errorf("%w: from %s is after to %s", ErrInvalidRange, formatTime(from), formatTime(to))
	}
	if lo, err = l.firstID(from); err != nil {
		return 0, 0, err
	}
	if hi, err = l.firstID(to); err != nil {
		return 0, 0, err
	}
	return lo, hi, nil
}

// firstID returns the smallest ID whose time is not before t.
func (l Layout) firstID(t time.Time) (ID, error) {
	if _, err := l.instant(t); err != nil && !t.Equal(l.Expires()) {
		return 0, err
	}
	if l.bits() == maxBits && t.After(l.time(instant{tick: l.maxTick()})) {
		return 0, l.exhausted(t)
	}
	return ID(l.ceil(t) << l.timeShift()), nil
}

// Follows returns nil if IDs of l can continue a table whose greatest ID is last, of the layout
// old: all IDs of l that are stamped after the tick of last are greater. To be sure that the tick
// has ended, set Options.After to last. If generators with old still run when l begins, last must
// be the greatest ID that they can still stamp: the hi of old.Range, less one.
//
// If an ID of l can be equal to or less than last, the error is an [*OverlapError]. If last has
// more bits than old, it matches [ErrInvalidID]; if l ends before it could begin,
// [ErrTimeExhausted].
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

// OverlapError reports an ID of a new layout that is not greater than the last ID of the old
// layout. It matches [ErrOverlap].
type OverlapError struct {
	Last     ID // the last ID of Old
	First    ID // the first ID that New can stamp after Last; First <= Last
	Old, New Layout
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("%v: the old layout has issued %d, stamped %s; the first ID of the new layout, stamped %s, is %d",
		ErrOverlap, e.Last, formatTime(e.Old.Decode(e.Last).Time), formatTime(e.New.Decode(e.First).Time), e.First)
}

func (e *OverlapError) Is(target error) bool { return target == ErrOverlap }
