package bench

import (
	"math/bits"
	"time"
)

// histogram counts durations. A bucket's width is at most a 32nd of its value.
// Counting costs less than reading the clock.
type histogram struct {
	counts  [64 * perOctave]uint64
	longest time.Duration
}

const (
	octaveBits = 5
	perOctave  = 1 << octaveBits
)

func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-1-octaveBits, 0)
	return shift<<octaveBits + int(v>>shift)
}

// least returns the smallest duration of a bucket.
func least(bucket int) time.Duration {
	shift := max(bucket>>octaveBits-1, 0)
	return time.Duration(bucket-shift<<octaveBits) << shift
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(d)]++
	h.longest = max(h.longest, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.longest = max(h.longest, other.longest)
}

// quantile returns the duration that a share q of all durations did not exceed, to a
// 32nd.
func (h *histogram) quantile(q float64) time.Duration {
	var total, seen uint64
	for _, n := range h.counts {
		total += n
	}
	for i, n := range h.counts {
		if seen += n; n > 0 && float64(seen) >= q*float64(total) {
			return least(i)
		}
	}
	return h.longest
}
