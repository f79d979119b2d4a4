package texts

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
)

// Moment formats a time of an ID.
func Moment(t time.Time) string { return times.Text(t) }

// Plain returns s, in quotes if it is not one plain word.
func Plain(s string) string {
	if quoted := strconv.Quote(s); s == "" || strings.Contains(s, " ") || quoted[1:len(quoted)-1] != s {
		return quoted
	}
	return s
}

// Number writes a number with commas between thousands, or with four digits if it is not a whole
// number, or is too large to be exact.
func Number(n float64) string {
	if n != math.Trunc(n) || n > 1<<53 {
		return strconv.FormatFloat(n, 'g', 4, 64)
	}
	digits := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
