// Package times compares and prints times.
package times

import "time"

// Earlier returns the earlier time.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Later returns the later time.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Text returns t in UTC, with milliseconds.
func Text(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
