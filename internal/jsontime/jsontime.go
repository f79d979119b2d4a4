// Package jsontime writes times as JSON that are too late for package time, which
// refuses years after 9999. A layout may go on for longer.
package jsontime

import "time"

// Time is a time. In JSON a year after 9999 has more than four digits.
type Time struct{ time.Time }

// MarshalJSON writes t as RFC 3339 has it, but for the year.
func (t Time) MarshalJSON() ([]byte, error) {
	if y := t.Year(); 0 <= y && y <= 9999 {
		return t.Time.MarshalJSON()
	}
	return []byte(t.UTC().Format(`"` + time.RFC3339Nano + `"`)), nil
}
