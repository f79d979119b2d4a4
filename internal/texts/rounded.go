package texts

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
	"regexp"
	"strconv"

	"github.com/seed-5394e6b1/snowflake"
)

// Rounding is the number of rounded IDs among others, and the cause.
type Rounding struct {
	By    string `json:"by"`    // the programs that round in this way
	Count int    `json:"count"` // the IDs that look rounded
	Of    int    `json:"of"`    // the IDs that rounding would change
	Sure  bool   `json:"sure"`  // false: there are few, which may look rounded by chance
}

// String returns a sentence without a full stop.
func (r Rounding) String() string {
	probably := ""
	if !r.Sure {
		probably = "probably "
	}
	return fmt.Sprintf("%d of %d numbers are %srounded: %s; read the IDs from their source again, as text", r.Count, r.Of, probably, r.By)
}

// Rounded reports whether IDs were stored as numbers that cannot hold them, and so were rounded. It
// detects three ways: to 15 decimal digits; to a float64 that is written with the fewest digits
// that identify it; and to a float64 that is written in full. A rounded ID is another ID, or no ID
// at all.
//
// IDs of a slow generator end in many zero bits, and IDs of whole seconds also in zero digits. Such
// IDs are no evidence, because a float64 holds them.
func Rounded(ids iter.Seq[snowflake.ID]) (Rounding, bool) {
	digits := rounding{by: "to 15 digits, as Excel and other spreadsheets do"}
	short := rounding{by: "to a float64, and printed as JavaScript does"}
	full := rounding{by: "to a float64, as JavaScript, Redis scores, Lua and pandas do"}
	fifteenth := 0   // the IDs whose 15th digit is 0, too, if the digits below are
	var above [2]int // the IDs whose bit above the bits that a float64 loses is 0, and 1
	for id := range ids {
		zeros := bits.TrailingZeros64(uint64(id))
		if id >= 1e15 && zeros < manyZeros {
			unit, less := snowflake.ID(1), 1.0
			for id/unit >= 1e15 {
				unit, less = 10*unit, less/5 // not 10: all IDs may be even
			}
			digits.count(id%unit == 0, less)
			if id%(10*unit) == 0 {
				fifteenth++
			}
		}
		lost := bits.Len64(uint64(id)) - float64Bits
		if lost <= 0 {
			continue
		}
		if zeros < lost {
			short.count(isShort(id), min(0.5, math.Ldexp(1, 1-lost))) // all IDs may be even
		}
		if zeros < manyZeros {
			full.count(zeros >= lost, math.Ldexp(1, -lost))
			above[id>>lost&1]++
		}
	}
	if 2*fifteenth > digits.rounded {
		digits.rounded = 0 // too often, so the digits below may be the zeros of whole seconds
	}
	if 8*min(above[0], above[1]) < full.of {
		// The bit does not vary, so the bits below may be the zeros of a constant field.
		full.rounded = 0
	}
	for _, r := range []rounding{digits, short, full} {
		if surprise := r.surprise(); surprise > perhaps {
			return Rounding{r.by, r.rounded, r.of, surprise > sure}, true
		}
	}
	return Rounding{}, false
}

// isShort reports whether an ID is its float64 written with the fewest digits that identify it,
// which are at most 17.
func isShort(id snowflake.ID) bool {
	if id >= 1e17 && id%10 != 0 || id >= 1e18 && id%100 != 0 {
		return false
	}
	return strconv.FormatFloat(float64(id), 'f', -1, 64) == id.String()
}

const (
	float64Bits = 53
	manyZeros   = 12 // with so many zero bits at its end, an ID was its tick's first

	// Logarithms of the improbability of an accident.
	perhaps = 4  // 1 in 50
	sure    = 14 // 1 in a million
)

// rounding counts the numbers that look as if they were rounded in one way.
type rounding struct {
	by          string
	rounded, of int
	chance      float64 // the expected number of those that look rounded by chance
}

func (r *rounding) count(rounded bool, chance float64) {
	r.of++
	r.chance += chance
	if rounded {
		r.rounded++
	}
}

// surprise returns Chernoff's bound on the improbability, as a logarithm, that so many look rounded
// by chance. It returns 0 if fewer than half, or fewer than twice as many as by chance, do.
func (r *rounding) surprise() float64 {
	n := float64(r.of)
	share, p := float64(r.rounded)/n, r.chance/n
	switch {
	case r.rounded == 0 || share < min(1, max(0.5, 2*p)):
		return 0
	case share == 1:
		return -n * math.Log(p)
	}
	return n * (share*math.Log(share/p) + (1-share)*math.Log((1-share)/(1-p)))
}

// inexact is a number of any digits that has an exponent, or a fraction of zeros.
var inexact = regexp.MustCompile(`^([0-9]+)(?:[.,](0*)|(?:[.,]([0-9]*))?[eE]\+?[0-9]+)$`)

// Inexact describes an ID that a program wrote as a number with an exponent or a fraction, such as
// 1.2E+17 or 117919502066282496.0. For other texts it returns "".
func Inexact(s string) string {
	m := inexact.FindStringSubmatch(s)
	switch {
	case m == nil || len(s) > 64:
		return ""
	case m[2] != "" || m[1] == s[:len(s)-1]:
		return "a floating-point number, as pandas and Excel write one: an ID over 9007199254740992 was rounded"
	}
	return fmt.Sprintf("a floating-point number of %d digits: the others of the ID are lost", len(m[1])+len(m[3]))
}
