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
	"connectrpc.com/grpchealth"

	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// getReady answers 200 if an ID could be issued now: it issues one, which is nobody's.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request) {
	if err := s.whyNotReady(r.Context(), time.Now()); err != nil {
		http.Error(w, of(r.Context()).tell(connect.CodeUnavailable, err).Message(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// Check answers gRPC's question for health: grpchealth calls it.
func (s *Server) Check(ctx context.Context, r *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if r.Service != "" && r.Service != snowflakev1connect.SnowflakeServiceName {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("the server has no such service"))
	}
	if err := s.whyNotReady(ctx, time.Now()); err != nil {
		of(ctx).tell(connect.CodeUnavailable, err)
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
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
		tokens := s.o.Tokens()
		i := slices.IndexFunc(tokens, func(want Token) bool { return same(got, want.Secret) })
		if !strings.EqualFold(scheme, "Bearer") || i < 0 {
			s.refuse(w, r, errToken)
			return
		}
		q := of(r.Context())
		q.token, q.quota = tokens[i], s.quotas.get(tokens[i], s.o.MaxIDs)
		if q.token.Name != "" {
			q.client = q.token.Name
		}
		next.ServeHTTP(w, r)
	})
}

// same compares in a time that tells nothing. An empty token is nobody's.
func same(got, want string) bool {
	g, w := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(g[:], w[:]) == 1 && want != ""
}
