package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// getReady answers 200 if an ID could be issued now: it issues one, and discards it.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request) {
	if err := s.whyNotReady(r.Context()); err != nil {
		problem{Code: connect.CodeUnavailable.String(), Message: err.Error()}.write(w, r, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// checker answers gRPC's question for health.
type checker struct{ s *Server }

func (c checker) Check(ctx context.Context, r *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if r.Service != "" && r.Service != snowflakev1connect.SnowflakeServiceName {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("the server has no such service"))
	}
	if c.s.whyNotReady(ctx) != nil {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}

// readyTime bounds the wait of /readyz for its ID. If others are served first for longer, the
// server is busy, and so it is ready.
const readyTime = time.Second

// whyNotReady returns the error for a client, or nil if the server is ready.
func (s *Server) whyNotReady(ctx context.Context) error {
	err := s.try(ctx)
	if err != nil {
		_, err = of(ctx).tell(err)
	}
	return err
}

// try issues an ID, unless the server is draining or has no generator yet.
func (s *Server) try(ctx context.Context) error {
	if s.draining.Load() {
		return errDraining
	}
	i, err := s.issues()
	if err != nil {
		return err
	}
	if err := i.leaseAway(); err != nil {
		return fmt.Errorf("%w: %w", snowflake.ErrLeaseExpired, err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	_, err = i.gen.NextIDContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, snowflake.ErrLeaseExpired) {
		return nil
	}
	return err
}

// leaseAway returns an error if the lease does not allow an ID to be issued now.
func (i *issuer) leaseAway() error {
	if i.lease == nil {
		return nil
	}
	if err := i.lease.Err(); err != nil {
		return err
	}
	if stats := i.lease.Stats(); !time.Now().Before(stats.Bound) {
		why := cmp.Or(stats.LastError, errors.New("it was not renewed in time"))
		return fmt.Errorf("the lease's window ended at %v: %w", stats.Bound.UTC().Format(time.RFC3339Nano), why)
	}
	return nil
}
