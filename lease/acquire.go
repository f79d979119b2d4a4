package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// Acquire takes a worker ID for opts.Owner, and keeps it until Release. ctx bounds the acquisition
// only: the lease continues after ctx is done.
//
// Acquire prefers the worker ID that the owner had last, and otherwise takes a free one, whose
// bound has passed, at random. If there is none, it takes one whose bound passes within a window
// (Options.Window), and waits. So when Acquire returns, the lease may issue IDs.
//
// If the store has no entries, it is new or has lost them. Acquire then waits for [MaxWindow] and a
// minute, until every window that may still be open has ended; in a directory without any sign of
// use, for Options.Window (see [File]). Processes share this wait, even one after the other. If ctx
// ends first, the error matches [ErrWiped]. [Init] and Options.NewStore end the wait.
//
// If all worker IDs are held, Acquire waits for one and a half times the longest window, its own or
// a holder's; if a record is lost, until its worker ID may be used. Then it returns an
// [*ExhaustedError].
//
// After an error whose cause can pass, Acquire logs it, and asks again until ctx is done or, if ctx
// has no deadline, for one to two minutes: if the store fails or its name does not resolve; if all
// bounds are in the future, because this host's clock was set back
// ([*snowflake.ClockBackwardError]); if the clock is ahead ([ErrClockLeap]), or not known to be
// right ([ErrClockUnsynchronized]). Acquire returns at once what waiting cannot mend: invalid
// options, another layout, a record that cannot be read, a service that lacks what the store needs
// ([errors.ErrUnsupported]), what matches [ErrRefused] (such as a wrong password), and ErrLost if
// the directory of the store or LocalCopy was cloned with the machine.
//
// If Acquire fails, it frees the worker IDs that it took on the way; if the store is slow, in the
// background.
func Acquire(ctx context.Context, s Store, opts *Options) (*Lease, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: the store is nil", ErrInvalidOptions)
	}
	o, err := opts.withDefaults(defaultWindow(s))
	if err != nil {
		return nil, err
	}
	vm, unused, err := o.openVMClock()
	if err != nil {
		return nil, err
	}
	begun := vmclock.Generation(vm)
	l := newLease(s, o)
	if o.LocalCopy != "" {
		err = l.again(ctx, func(ctx context.Context) (err error) {
			l.store, err = withLocalCopy(ctx, s, l.o.local(), &l.o)
			return err
		})
		if err != nil {
			l.cancel()
			return nil, err
		}
	}
	_, isDirectory := l.store.(book.Directory)
	l.cloning = cloning{vm, begun, begun, isDirectory}
	err = l.again(ctx, func(ctx context.Context) error {
		// Not in obtain: a process that replaces a lost worker ID continues whatever the kernel says.
		if err := o.checkSync(); err != nil {
			return err
		}
		return l.obtain(ctx)
	})
	if err != nil {
		l.cancel()
		return nil, err
	}
	l.grantFirst()
	l.log.acquired(l)
	if unused != nil {
		l.log.unguarded(l, unused)
	}
	if engine, ok := s.(driver.Settings); ok {
		go l.checkSettings(engine.Settings)
	}
	go l.run(l.ctx)
	return l, nil
}

// checkSettings logs the settings with which the store's engine may lose acknowledged writes.
func (l *Lease) checkSettings(settings func(context.Context) ([]string, error)) {
	ctx, cancel := context.WithTimeout(l.ctx, l.o.patience())
	defer cancel()
	unsafe, err := settings(ctx)
	if l.ctx.Err() != nil {
		return
	}
	l.log.settings(l, unsafe, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Unsafe = unsafe
}

// again calls f until it succeeds, as long as waiting can help (mayMend). If the last error is a
// time-out, again also returns the error before it.
func (l *Lease) again(ctx context.Context, f func(context.Context) error) error {
	begun := machine.Now()
	_, bounded := ctx.Deadline()
	var cause error
	for backoff := l.o.Window / 100; ; backoff = min(2*backoff, l.o.Window/3) {
		err := f(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil && mayMend(err) && (cause == nil || !book.IsTimeout(err)):
			until, _ := ctx.Deadline()
			l.log.unacquired(l, err, until)
			cause = err
		case !book.IsTimeout(err):
			cause = err
		case cause != nil:
			err = fmt.Errorf("%w: %w", err, cause)
		}
		waits := mayMend(err) || errors.Is(err, ErrWiped) || errors.Is(err, ErrExhausted)
		// If ctx ended within a request, the request may have failed with another error.
		if ended := ctx.Err(); ended != nil && waits && !errors.Is(err, ended) {
			return fmt.Errorf("%w: %w", err, ended)
		}
		if ctx.Err() != nil || !mayMend(err) || !bounded && machine.Since(begun) >= retryFor {
			return err
		}
		if ended := machine.Sleep(ctx, machine.Jittered(backoff)); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// retryFor bounds Acquire's retries if its context has no deadline.
const retryFor = time.Minute

// mayMend reports whether err may pass if the store is asked again. It returns false for what only
// a person can change, and for what Acquire has waited for already.
func mayMend(err error) bool {
	return !slices.ContainsFunc([]error{
		ErrInvalidOptions, ErrLayout, ErrBadRecord, ErrRefused, errors.ErrUnsupported,
		ErrExhausted, ErrWiped, ErrLost, snowflake.ErrInvalidLayout,
		snowflake.ErrTimeExhausted, snowflake.ErrBeforeEpoch,
	}, func(target error) bool { return errors.Is(err, target) })
}
