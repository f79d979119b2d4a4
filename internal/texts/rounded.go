package texts

import (
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
)

// Rounding finds out whether a program has rounded IDs. The zero value has seen no ID.
type Rounding struct {
	large   int  // IDs above 2^53, which a float64 may round
	sheet   sign // 15 digits, and zeros
	script  sign // what JavaScript writes for a float64
	double  sign // float64 values
	lastBit int  // float64 values that need the last of a float64's bits
}

// sign is a sign of rounding.
type sign struct {
	ids  int
	bits float64 // how unlikely it is by chance that so many IDs have it
}

func (s *sign) add(has bool, bits float64) {
	if has {
		s.ids++
		s.bits += bits
	}
}

// Add counts an ID.
func (r *Rounding) Add(id snowflake.ID) {
	if id <= 1<<53 {
		return
	}
	r.large++
	text := id.String()
	zeros := len(text) - len(strings.TrimRight(text, "0"))
	lost := bits.Len64(uint64(id)) - 53
	low := id & (1<<lost - 1)
	r.sheet.add(zeros >= len(text)-15, 3.3*float64(len(text)-15)) // ten is 3.3 bits
	r.script.add(text == scripted(id), float64(lost))
	r.double.add(low == 0, float64(lost))
	if low == 0 && id>>lost&1 == 1 {
		r.lastBit++
	}
}

// scripted returns how JavaScript writes a number: the fewest digits that name the float64, and zeros.
func scripted(id snowflake.ID) string {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(float64(id), 'e', -1, 64), "e+")
	digits := strings.Replace(mantissa, ".", "", 1)
	n, _ := strconv.Atoi(exponent)
	return digits + strings.Repeat("0", max(0, n+1-len(digits)))
}

// readAgain is what to do about rounded IDs.
const readAgain = "The last digits are lost: read the source again, with the column as text"

// Says says by what the IDs were rounded, and what to do. It returns "" if they do not look rounded.
func (r *Rounding) Says() string {
	has := func(s sign) bool { return s.bits >= 8 && 100*s.ids >= 98*r.large }
	all := "all IDs above 2^53 have"
	if r.large == 1 {
		all = "the ID has"
	}
	switch {
	case has(r.sheet):
		return fmt.Sprintf("%s only zeros after the 15th digit: Excel or another spreadsheet has probably rounded. %s", all, readAgain)
	case has(r.script):
		return fmt.Sprintf("%s zeros at the end, as JavaScript writes a float64, which has probably rounded. %s", all, readAgain)
	// If a field is 0, the ID may be a float64 value as well. But then it hardly ever needs the last bit.
	case has(r.double) && r.double.ids >= 5 && 5*r.lastBit >= r.double.ids:
		return fmt.Sprintf("%s the value of a float64, such as a multiple of 16 or 128: a float64 has probably rounded. %s", all, readAgain)
	}
	return ""
}

// Rounded returns what Rounding says of IDs.
func Rounded(ids []snowflake.ID) string {
	var r Rounding
	for _, id := range ids {
		r.Add(id)
	}
	return r.Says()
}

var (
	scientific = regexp.MustCompile(`^[0-9](\.[0-9]+)?[eE]\+?[0-9]+$`)
	pointZero  = regexp.MustCompile(`^[0-9]+\.0*$`)
)

// RoundedText says of a text, which is no ID, that it is a number that a program has rounded. Otherwise it returns "".
func RoundedText(s string) string {
	switch {
	case scientific.MatchString(s):
		return fmt.Sprintf("%.40q is a number in scientific notation, as Excel and float64s are written. %s", s, readAgain)
	case pointZero.MatchString(s) && len(s) > 17:
		return fmt.Sprintf("%.40q was a float64, as pandas makes of a column with NULLs. %s", s, readAgain)
	}
	return ""
}
