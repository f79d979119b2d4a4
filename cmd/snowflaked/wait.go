package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/seed-5394e6b1/snowflake/internal/cause"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// acquired is a lease, and its store.
type acquired struct {
	lease      *lease.Lease
	store      lease.Store
	closeStore func() error
}

// stopTime bounds the wait for a call to the store to end, after a signal or a failure of the
// server.
const stopTime = 500 * time.Millisecond

// acquireUnless acquires a worker ID unless ctx is done first, or the server has failed. Then it
// returns within stopTime, even if the store hangs.
func (c *config) acquireUnless(ctx context.Context, failed <-chan error, w *waiting) (got acquired, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		got, err = c.acquire(ctx, w)
	}()
	var why error
	select {
	case <-done:
		return got, err
	case why = <-failed:
		cancel()
	case <-ctx.Done():
		why = ctx.Err()
	}
	select {
	case <-done:
		if err == nil { // acquired in spite of the signal
			release(got.lease)
			_ = got.closeStore()
		}
	case <-time.After(stopTime):
	}
	return acquired{}, why
}

// acquire opens the store and acquires a worker ID. ctx bounds the acquisition, not the lease.
func (c *config) acquire(ctx context.Context, w *waiting) (got acquired, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for { // opening some stores includes logging in, so the store may be away
		got.store, got.closeStore, err = openURL(ctx, c.store)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			break
		}
		slog.Warn("the store cannot be opened yet", "error", err, "next", "try again in a second")
		w.say("the store cannot be opened yet: " + whyOf(err))
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	if err != nil {
		return got, err
	}
	c.lease.Layout = c.generator.Layout
	c.lease.Logger = slog.New(listening{slog.Default().Handler(), w})
	got.lease, err = lease.Acquire(ctx, got.store, &c.lease)
	if err != nil {
		_ = got.closeStore()
		return got, fmt.Errorf("no worker ID was acquired: %w", err)
	}
	return got, nil
}

// waiting is the state of the wait for a worker ID, which probes and systemd see.
type waiting struct {
	last atomic.Pointer[string] // the cause of the wait
	over atomic.Bool            // set when there is a worker ID
}

func (w *waiting) say(text string) {
	if w.over.Load() {
		return
	}
	w.last.Store(&text)
	notify("STATUS=waits for a worker ID: " + text)
}

func (w *waiting) text() string {
	if text := w.last.Load(); text != nil {
		return *text
	}
	return "the store has not answered yet"
}

// listening passes on the log of a lease, and its last warning to w. Anybody can read that, so it
// has only the constant message, the length of the wait and the kind of the error.
type listening struct {
	slog.Handler
	w *waiting
}

func (h listening) Handle(ctx context.Context, r slog.Record) error {
	if text, ok := strings.CutPrefix(r.Message, "lease: "); ok && r.Level >= slog.LevelWarn {
		r.Attrs(func(a slog.Attr) bool {
			switch err, isError := a.Value.Any().(error); {
			case a.Key == "wait":
				text += "; it takes " + a.Value.String() + " from " + r.Time.UTC().Format(time.RFC3339) + " on"
			case a.Key == "error" && isError:
				text += ": " + whyOf(err)
			}
			return true
		})
		h.w.say(text)
	}
	return h.Handler.Handle(ctx, r)
}

// redisCode matches the first word of an error of Redis, such as OOM.
var redisCode = regexp.MustCompile(`^[A-Z]{3,}$`)

// whyOf describes the kind of a store's error. The error itself may name users, databases and
// hosts, so only the log has it.
func whyOf(err error) string {
	if errors.Is(err, lease.ErrExhausted) {
		return "all of them are held; the log names the holders"
	}
	if errors.Is(err, lease.ErrRefused) {
		return "the store refuses this client"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "the store's name does not resolve"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the store's certificate is not trusted"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return "the store answers with SQLSTATE " + e.SQLState()
	}
	if code, _, _ := strings.Cut(cause.Innermost(err).Error(), " "); redisCode.MatchString(code) {
		return "the store answers with " + code
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the store does not answer in time"
	case errors.Is(err, lease.ErrAway):
		return "the store cannot answer now; the log says more"
	}
	return "the log says why"
}

func (h listening) WithAttrs(attrs []slog.Attr) slog.Handler {
	return listening{h.Handler.WithAttrs(attrs), h.w}
}

func (h listening) WithGroup(name string) slog.Handler {
	return listening{h.Handler.WithGroup(name), h.w}
}

// notify tells systemd the state of a service with Type=notify. Without systemd it does nothing.
func notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		slog.Warn("cannot tell systemd the state", "error", err)
	}
}
