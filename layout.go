package snowflake

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Layout divides the bits of an ID among its fields: from high to low time, clock sequence,
// datacenter, worker and sequence. Only time must have bits. Layouts can be compared with ==. The
// package doc has the HAZARD of a change.
type Layout struct {
	Epoch          Epoch         `json:"epochMillis"`    // the start of time
	Unit           time.Duration `json:"unitNanos"`      // the length of a tick
	TimeBits       uint8         `json:"timeBits"`       // 1 to 63
	ClockSeqBits   uint8         `json:"clockSeqBits"`   // for [ClockSeqPolicy]
	DatacenterBits uint8         `json:"datacenterBits"` // for Options.Datacenter
	WorkerBits     uint8         `json:"workerBits"`
	SequenceBits   uint8         `json:"sequenceBits"` // n bits allow 2^n IDs in a tick
	WorkerLast     bool          `json:"workerLast"`   // worker below sequence, as in Sonyflake
}

// maxBits is the number of bits in an int64 without its sign.
const maxBits = 63

// DefaultLayout is 41 bits of milliseconds, 10 of worker and 12 of sequence.
func DefaultLayout() Layout {
	return Layout{Epoch: DefaultEpoch, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
}

// ClockSeqLayout is DefaultLayout with 3 bits of clock sequence, 7 of worker.
func ClockSeqLayout() Layout {
	return Layout{Epoch: DefaultEpoch, Unit: time.Millisecond, TimeBits: 41, ClockSeqBits: 3, WorkerBits: 7, SequenceBits: 12}
}

// JSSafeLayout is 33 bits of seconds, 4 of worker and 15 of sequence. Its IDs are below 2^52, so
// JavaScript's numbers hold them.
func JSSafeLayout() Layout {
	return Layout{Epoch: DefaultEpoch, Unit: time.Second, TimeBits: 33, WorkerBits: 4, SequenceBits: 15}
}

// Validate returns an error that matches [ErrInvalidLayout] if Unit is not positive, if there are
// no time bits or more than 63 bits in all, if a field is wider than an int, or if the time is over
// 36 billion years.
func (l Layout) Validate() error {
	if l.Unit <= 0 {
		return fmt.Errorf("%w: unit %v is not positive", ErrInvalidLayout, l.Unit)
	}
	if l.TimeBits == 0 {
		return fmt.Errorf("%w: no time bits", ErrInvalidLayout)
	}
	if n := l.bits(); n > maxBits {
		return fmt.Errorf("%w: %d bits in all, an ID has %d", ErrInvalidLayout, n, maxBits)
	}
	if n := max(l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits); n >= strconv.IntSize {
		return fmt.Errorf("%w: a field has %d bits; on this system an int holds %d", ErrInvalidLayout, n, strconv.IntSize-1)
	}
	if sec, _ := seconds(1<<l.TimeBits, l.Unit); sec > maxSeconds {
		return fmt.Errorf("%w: %d bits of %v last longer than 36 billion years", ErrInvalidLayout, l.TimeBits, l.Unit)
	}
	return nil
}

// Expires returns the first instant after the layout's last tick.
func (l Layout) Expires() time.Time {
	return l.time(instant{tick: l.maxTick()}).Add(l.Unit)
}

// Check returns an error that matches [ErrInvalidID] if id is negative or has more bits than the
// layout.
func (l Layout) Check(id ID) error {
	if id < 0 {
		return fmt.Errorf("%w: %d is negative", ErrInvalidID, id)
	}
	if n := bits.Len64(uint64(id)); n > l.bits() {
		return fmt.Errorf("%w: %d has %d bits, the layout %d", ErrInvalidID, id, n, l.bits())
	}
	return nil
}

// String returns the layout as [ParseLayout] reads it, such as 41/10/12@2026-01-01,1ms: the widths
// of its fields in bits, the epoch as [Epoch.String] returns it, and the unit.
//
//	time[/clock sequence[/datacenter]]/worker/sequence@epoch,unit[,worker-last]
func (l Layout) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/", l.TimeBits)
	if l.ClockSeqBits > 0 || l.DatacenterBits > 0 {
		fmt.Fprintf(&b, "%d/", l.ClockSeqBits)
	}
	if l.DatacenterBits > 0 {
		fmt.Fprintf(&b, "%d/", l.DatacenterBits)
	}
	fmt.Fprintf(&b, "%d/%d@%v,%v", l.WorkerBits, l.SequenceBits, l.Epoch, l.Unit)
	if l.WorkerLast {
		b.WriteString(workerLast)
	}
	return b.String()
}

const workerLast = ",worker-last"

// ParseLayout reads the text of [Layout.String], and no other form of it. Errors match
// [ErrInvalidLayout].
func ParseLayout(s string) (Layout, error) {
	l, err := parseLayout(s)
	if err != nil {
		return Layout{}, fmt.Errorf("%w: %.80q: %w", ErrInvalidLayout, s, err)
	}
	if err := l.Validate(); err != nil {
		return Layout{}, err
	}
	if text := l.String(); text != s {
		return Layout{}, fmt.Errorf("%w: %.80q is not in the usual form, %s", ErrInvalidLayout, s, text)
	}
	return l, nil
}

// parseLayout reads more forms of a layout than String writes.
func parseLayout(s string) (l Layout, err error) {
	widths, rest, _ := strings.Cut(s, "@")
	rest, l.WorkerLast = strings.CutSuffix(rest, workerLast)
	epoch, unit, ok := strings.Cut(rest, ",")
	if !ok {
		return l, errors.New("want fields, an epoch and a unit, as in 41/10/12@2026-01-01,1ms")
	}
	bits := strings.Split(widths, "/")
	fields := map[int][]*uint8{
		3: {&l.TimeBits, &l.WorkerBits, &l.SequenceBits},
		4: {&l.TimeBits, &l.ClockSeqBits, &l.WorkerBits, &l.SequenceBits},
		5: {&l.TimeBits, &l.ClockSeqBits, &l.DatacenterBits, &l.WorkerBits, &l.SequenceBits},
	}[len(bits)]
	if fields == nil {
		return l, fmt.Errorf("it has %d fields, want 3, 4 or 5", len(bits))
	}
	for i, text := range bits {
		n, err := strconv.ParseUint(text, 10, 8)
		if err != nil {
			return l, fmt.Errorf("%q is not a number of bits", text)
		}
		*fields[i] = uint8(n)
	}
	if l.Epoch, err = parseEpoch(epoch); err != nil {
		return l, fmt.Errorf("%q is not an epoch such as 2026-01-01", epoch)
	}
	if l.Unit, err = time.ParseDuration(unit); err != nil {
		return l, fmt.Errorf("%q is not a unit such as 1ms", unit)
	}
	return l, nil
}

// The places of the fields, as shifts.

func (l Layout) sequenceShift() int {
	if l.WorkerLast {
		return int(l.WorkerBits)
	}
	return 0
}

func (l Layout) workerShift() int {
	if l.WorkerLast {
		return 0
	}
	return int(l.SequenceBits)
}

func (l Layout) datacenterShift() int { return int(l.WorkerBits) + int(l.SequenceBits) }
func (l Layout) clockSeqShift() int   { return l.datacenterShift() + int(l.DatacenterBits) }
func (l Layout) timeShift() int       { return l.clockSeqShift() + int(l.ClockSeqBits) }
func (l Layout) bits() int            { return l.timeShift() + int(l.TimeBits) }

// maxTick returns the last tick that the time bits hold.
func (l Layout) maxTick() int64 { return lowBits(l.TimeBits) }

// sequences returns the number of IDs in a tick.
func (l Layout) sequences() int64 { return 1 << l.SequenceBits }

// lowBits returns the largest value of n bits, at most math.MaxInt64.
func lowBits(n uint8) int64 {
	return math.MaxInt64 &^ (-1 << n)
}

// instant is a point in time as a layout counts it.
type instant struct {
	tick int64
	into time.Duration // the time since the start of tick; 0 <= into < Unit
}

// instant returns t in ticks. If t is outside the layout's time, the error matches ErrBeforeEpoch
// or ErrTimeExhausted. The layout must be valid.
func (l Layout) instant(t time.Time) (instant, error) {
	epoch := l.Epoch.Time()
	if t.Before(epoch) {
		return instant{}, fmt.Errorf("%w: %s is before %s", ErrBeforeEpoch, formatTime(t), formatTime(epoch))
	}
	sec := uint64(t.Unix() - epoch.Unix())
	nsec := t.Nanosecond() - epoch.Nanosecond()
	if nsec < 0 {
		sec, nsec = sec-1, nsec+1e9
	}
	hi, lo := bits.Mul64(sec, 1e9)
	lo, carry := bits.Add64(lo, uint64(nsec), 0)
	hi += carry
	if hi < uint64(l.Unit) {
		if tick, into := bits.Div64(hi, lo, uint64(l.Unit)); tick <= uint64(l.maxTick()) {
			return instant{int64(tick), time.Duration(into)}, nil
		}
	}
	return instant{}, l.exhausted(t)
}

// ceil returns the first tick that does not begin before t. It is at least 0, and at
// most the tick after the last one, or math.MaxInt64 if an int64 cannot hold that.
func (l Layout) ceil(t time.Time) int64 {
	if t.Before(l.Epoch.Time()) {
		return 0
	}
	at, err := l.instant(t)
	switch {
	case err != nil && l.maxTick() == math.MaxInt64:
		return math.MaxInt64
	case err != nil:
		return l.maxTick() + 1
	case at.into > 0 && at.tick < math.MaxInt64:
		return at.tick + 1
	}
	return at.tick
}

// exhausted returns the error of a time past the layout's last tick.
func (l Layout) exhausted(t time.Time) error {
	return fmt.Errorf("%w: it ended at %s, the time is %s", ErrTimeExhausted, formatTime(l.Expires()), formatTime(t))
}

// time is the inverse of instant. Like [Epoch.after], it accepts every tick.
func (l Layout) time(at instant) time.Time {
	t := l.Epoch.after(at.tick, l.Unit)
	if at.into > 0 {
		t = t.Add(at.into)
	}
	return t
}

// until returns the time from at to the start of tick: 0 if the tick has begun, and
// at most the longest Duration.
func (l Layout) until(at instant, tick int64) time.Duration {
	if tick <= at.tick {
		return 0
	}
	hi, lo := bits.Mul64(uint64(tick-at.tick), uint64(l.Unit))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(lo) - at.into
}

// plus returns the tick that contains the time d after at; d may be negative. The
// result is at most math.MaxInt64.
func (l Layout) plus(at instant, d time.Duration) int64 {
	d += at.into
	ticks := int64(d / l.Unit)
	if d%l.Unit < 0 {
		ticks--
	}
	if ticks > math.MaxInt64-at.tick {
		return math.MaxInt64
	}
	return at.tick + ticks
}
