// Package cause compares errors by their causes, for logs that report each cause once.
package cause

import (
	"strings"
	"unicode"
)

// Of returns the Kind of the innermost error of err. Errors with the same cause have the same text.
func Of(err error) string { return Kind(Innermost(err).Error()) }

// Kind returns a text without its digits. Texts of one kind differ only in numbers, such as a
// remaining wait.
func Kind(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}

// Innermost returns the last error in the chain of err. Of several wrapped errors it follows the
// last one, because the others are sentinels.
func Innermost(err error) error {
	for {
		var inner error
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			inner = e.Unwrap()
		case interface{ Unwrap() []error }:
			inner = e.Unwrap()[len(e.Unwrap())-1]
		}
		if inner == nil {
			return err
		}
		err = inner
	}
}
