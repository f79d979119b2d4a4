package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// getReady answers 200 if an ID could be issued now: it issues one, which is nobody's.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request) {
	if err := s.whyNotReady(r.Context(), time.Now()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// readyTime is for how long /readyz waits for its ID. If others are served first for longer, the
// server is busy, and ready.
const readyTime = time.Second

func (s *Server) whyNotReady(ctx context.Context, now time.Time) error {
	if s.draining.Load() {
		return errDraining
	}
	if err := s.leaseAway(now); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if _, err := s.gen.NextIDContext(ctx); err != nil && code(err) != connect.CodeDeadlineExceeded {
		return err
	}
	return nil
}

// leaseAway says why the lease lets no ID be issued, if it does not.
func (s *Server) leaseAway(now time.Time) error {
	if s.o.Lease == nil {
		return nil
	}
	if err := s.o.Lease.Err(); err != nil {
		return err
	}
	if stats := s.o.Lease.Stats(); !now.Before(stats.Bound) {
		why := cmp.Or(stats.LastError, errors.New("the lease was not renewed in time"))
		return fmt.Errorf("the lease's window ended at %v: %w", stats.Bound.UTC().Format(time.RFC3339Nano), why)
	}
	return nil
}

// authorized lets a request pass that has the token.
func (s *Server) authorized(next http.Handler) http.Handler {
	if s.o.Tokens == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || !slices.ContainsFunc(s.o.Tokens(), func(want string) bool { return same(got, want) }) {
			s.refuse(w, r, errToken)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// same compares in a time that tells nothing. An empty token is nobody's.
func same(got, want string) bool {
	g, w := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(g[:], w[:]) == 1 && want != ""
}
