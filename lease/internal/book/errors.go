package book

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// ErrWiped is lease.ErrWiped.
var ErrWiped = errors.New("lease: the store is new, or has lost entries")

// Once removes repetitions of "lease: " from the text of err, because errors of this
// package wrap one another.
func Once(err error) error { return onceError{err} }

type onceError struct{ error }

func (e onceError) Error() string { return strings.ReplaceAll(e.error.Error(), ": lease: ", ": ") }

func (e onceError) Unwrap() error { return e.error }

// Unanswered returns err. It adds that the store did not answer in time if patient has
// ended and its parent ctx has not, or if err says no more than ctx's error.
func Unanswered(ctx, patient context.Context, err error) error {
	if err == nil || ctx.Err() != nil && err != ctx.Err() || patient.Err() == nil || !IsTimeout(err) {
		return err
	}
	return Once(fmt.Errorf("lease: the store did not answer in time: %w", err))
}

// IsTimeout reports whether err says only that the time was up. If err wraps several errors, each
// of them must say so, except ErrAway, which adds nothing. The errors of gRPC say so only in their
// texts.
func IsTimeout(err error) bool {
	if err == nil {
		return false
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return IsTimeout(inner)
		}
	case interface{ Unwrap() []error }:
		all := slices.DeleteFunc(slices.Clone(e.Unwrap()), func(err error) bool { return err == driver.ErrAway })
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !IsTimeout(err) })
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		strings.HasSuffix(err.Error(), context.DeadlineExceeded.Error()) || strings.HasSuffix(err.Error(), context.Canceled.Error())
}
