// Package cause compares errors by what caused them, for logs that say each cause once.
package cause

import (
	"strings"
	"unicode"
)

// Of returns the text of the error that err wraps last, in the form of Kind. Two errors with the
// same text have the same cause.
func Of(err error) string { return Kind(Innermost(err).Error()) }

// Kind returns a text without its digits. Texts of one kind differ only in numbers, such as in a
// wait that gets shorter, or a bound that moves.
func Kind(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}

// Innermost returns the last error in the chain of err. Where an error wraps several, it takes the
// last, because the first ones are sentinels.
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
