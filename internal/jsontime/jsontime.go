// Package jsontime writes times as JSON. It also writes years after 9999, which package time
// refuses and some layouts reach.
package jsontime

import "time"

// Time is a time whose year may have more than four digits in JSON.
type Time struct{ time.Time }

// MarshalJSON writes t in the form of RFC 3339, with as many digits as the year needs.
func (t Time) MarshalJSON() ([]byte, error) {
	if y := t.Year(); 0 <= y && y <= 9999 {
		return t.Time.MarshalJSON()
	}
	return []byte(t.UTC().Format(`"` + time.RFC3339Nano + `"`)), nil
}
