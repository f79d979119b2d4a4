package snowflake

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Layout says how the bits of an ID are divided among its fields. From high to
// low the fields are time, clock sequence, datacenter, worker and sequence. If
// WorkerLast is set, the worker has the lowest bits, below the sequence. Every
// field but time may have no bits.
//
// Layouts can be compared with ==. A literal works as well as a preset:
//
//	snowflake.Layout{
//		Epoch: snowflake.EpochAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
//		Unit:  time.Millisecond,
//		TimeBits: 41, WorkerBits: 8, SequenceBits: 14,
//	}
//
// HAZARD: if you change the layout of a table that has IDs, a new ID can equal an
// old ID. [Layout.Follows] tells whether a change is safe.
type Layout struct {
	Epoch          Epoch         // the instant at which the time field is 0; left out, it is 1970
	Unit           time.Duration // the tick: what the time field counts
	TimeBits       uint8         // 1 to 63
	ClockSeqBits   uint8         // for ClockSeqPolicy; see [ClockSeqPolicy]
	DatacenterBits uint8         // for Options.Datacenter
	WorkerBits     uint8         // for the worker ID
	SequenceBits   uint8         // IDs in one tick, as a power of two
	WorkerLast     bool          // worker in the lowest bits, below the sequence, as in Sonyflake's IDs
}

// maxBits is the number of bits in an int64 without its sign.
const maxBits = 63

// maxSeconds bounds the times of a layout, in seconds on either side of its
// epoch: 36 billion years, well within the range of a time.Time.
const maxSeconds = 1 << 60

// DefaultLayout is 41 bits of milliseconds since [DefaultEpoch], 10 of worker
// and 12 of sequence: 1,024 workers with 4,096 IDs a millisecond each, until
// 2095-09-07.
func DefaultLayout() Layout {
	return Layout{Epoch: DefaultEpoch, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
}

// TwitterLayout is the layout of Twitter's snowflake: 41 bits of milliseconds since
// [TwitterEpoch], 5 of datacenter, 5 of worker and 12 of sequence.
func TwitterLayout() Layout {
	return Layout{Epoch: TwitterEpoch, Unit: time.Millisecond, TimeBits: 41, DatacenterBits: 5, WorkerBits: 5, SequenceBits: 12}
}

// BwmarrinLayout is the default of github.com/bwmarrin/snowflake: 41 bits of
// milliseconds since [TwitterEpoch], 10 of worker (its node) and 12 of sequence,
// until 2080-07-10. Meituan's Leaf has the same.
func BwmarrinLayout() Layout {
	return Layout{Epoch: TwitterEpoch, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
}

// ClockSeqLayout is the default layout with three bits of the worker given to a
// clock sequence. It has 128 workers. With [ClockSeqPolicy], each of them goes on
// at once when its clock is set back, for up to seven overlapping steps back.
func ClockSeqLayout() Layout {
	return Layout{Epoch: DefaultEpoch, Unit: time.Millisecond, TimeBits: 41, ClockSeqBits: 3, WorkerBits: 7, SequenceBits: 12}
}

// JSSafeLayout keeps IDs below 2^52. JavaScript's numbers are exact up to 2^53, so
// they hold these IDs with room to spare. It has 33 bits of seconds since
// [DefaultEpoch], 4 of worker and 15 of sequence: 16 workers with 32,768 IDs a
// second each.
func JSSafeLayout() Layout {
	return Layout{Epoch: DefaultEpoch, Unit: time.Second, TimeBits: 33, WorkerBits: 4, SequenceBits: 15}
}

// BaiduLayout is the default of Baidu's uid-generator: 28 bits of seconds since
// 2016-05-20 in Beijing (2016-05-19T16:00:00Z), 22 of worker and 13 of sequence.
// It ran out of time on 2024-11-20: New refuses it, Decode still reads old IDs.
func BaiduLayout() Layout {
	return Layout{Epoch: 1463673600000, Unit: time.Second, TimeBits: 28, WorkerBits: 22, SequenceBits: 13}
}

// RedisLayout is the usual layout of ID services that run a script in Redis: 41
// bits of milliseconds since [UnixEpoch], which last until 2039, 12 of worker and
// 10 of sequence.
func RedisLayout() Layout {
	return Layout{Epoch: UnixEpoch, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 12, SequenceBits: 10}
}

// SonyflakeLayout is the default of github.com/sony/sonyflake, version 1: 39 bits
// of 10 ms since 2014-09-01, 8 of sequence and, in the lowest place, 16 of machine
// (the worker here), until 2188. Version 2 has another epoch: see
// [SonyflakeV2Layout].
func SonyflakeLayout() Layout {
	return Layout{Epoch: 1409529600000, Unit: 10 * time.Millisecond, TimeBits: 39, SequenceBits: 8, WorkerBits: 16, WorkerLast: true}
}

// SonyflakeV2Layout is the default of github.com/sony/sonyflake/v2: the bits of
// [SonyflakeLayout], counted from 2025-01-01, until 2199.
func SonyflakeV2Layout() Layout {
	l := SonyflakeLayout()
	l.Epoch = 1735689600000
	return l
}

// DiscordLayout is the layout of Discord's IDs: milliseconds since [DiscordEpoch],
// 5 bits of worker (the datacenter here), 5 of process (the worker here) and 12
// of increment (the sequence here). Discord has 42 bits of time; the highest is
// the sign bit here, so this layout ends in 2084, before Discord's does.
func DiscordLayout() Layout {
	return Layout{Epoch: DiscordEpoch, Unit: time.Millisecond, TimeBits: 41, DatacenterBits: 5, WorkerBits: 5, SequenceBits: 12}
}

// InstagramLayout is the layout of Instagram's IDs, as its engineering blog gives
// it: milliseconds since 2011-08-24T21:07:01.721Z, 13 bits of logical shard (the
// worker here) and 10 of sequence. Instagram has 41 bits of time; the highest
// is the sign bit here.
func InstagramLayout() Layout {
	return Layout{Epoch: 1314220021721, Unit: time.Millisecond, TimeBits: 40, WorkerBits: 13, SequenceBits: 10}
}

// Validate returns nil if IDs of this layout can be issued and read back. The
// error matches [ErrInvalidLayout] if Unit is not positive, if there are no time
// bits, if there are more than 63 bits in all, if a field is wider than an int, or
// if the last tick is more than 36 billion years from the epoch.
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
	if hi, lo := bits.Mul64(1<<l.TimeBits, uint64(l.Unit)); hi >= 1e9 || div64(hi, lo, 1e9) > maxSeconds {
		return fmt.Errorf("%w: %d bits of %v last longer than 36 billion years", ErrInvalidLayout, l.TimeBits, l.Unit)
	}
	return nil
}

// Expires returns the first instant after the layout's last tick: from then on
// there are no IDs.
func (l Layout) Expires() time.Time {
	return l.time(instant{tick: l.maxTick()}).Add(l.Unit)
}

// Check returns an error that matches [ErrInvalidID] if id is negative or has more
// bits than the layout. It cannot tell whether id was ever issued.
func (l Layout) Check(id ID) error {
	if id < 0 {
		return fmt.Errorf("%w: %d is negative", ErrInvalidID, id)
	}
	if n := bits.Len64(uint64(id)); n > l.bits() {
		return fmt.Errorf("%w: %d has %d bits, the layout %d", ErrInvalidID, id, n, l.bits())
	}
	return nil
}

// String describes the layout for people to read, with its fields from high to low:
//
//	time=41 worker=10 sequence=12 unit=1ms epoch=2026-01-01T00:00:00.000Z
func (l Layout) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "time=%d", l.TimeBits)
	field := func(name string, bits uint8) {
		if bits > 0 {
			fmt.Fprintf(&b, " %s=%d", name, bits)
		}
	}
	field("clockseq", l.ClockSeqBits)
	field("datacenter", l.DatacenterBits)
	if l.WorkerLast {
		field("sequence", l.SequenceBits)
		field("worker", l.WorkerBits)
	} else {
		field("worker", l.WorkerBits)
		field("sequence", l.SequenceBits)
	}
	fmt.Fprintf(&b, " unit=%v epoch=%s", l.Unit, formatTime(l.Epoch.Time()))
	return b.String()
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

// sequences returns how many IDs a tick has.
func (l Layout) sequences() int64 { return 1 << l.SequenceBits }

// lowBits returns the largest value of n bits, at most math.MaxInt64.
func lowBits(n uint8) int64 {
	return math.MaxInt64 &^ (-1 << n)
}
