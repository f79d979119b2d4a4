package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// getReady answers 200 if an ID could be issued now.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request) {
	if err := s.whyNotReady(r.Context()); err != nil {
		refused(http.StatusServiceUnavailable, connect.CodeUnavailable, "%v", err).write(w, r)
		return
	}
	fmt.Fprintln(w, "ok")
}

// checker implements gRPC's health check.
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

// readyTime is the maximum wait of /readyz for an ID, if there is no lease to ask. A server that is
// busy with other calls for longer is ready.
const readyTime = time.Second

// whyNotReady returns nil if the server is ready, and otherwise the error for a client.
func (s *Server) whyNotReady(ctx context.Context) error {
	err := s.try(ctx)
	if err == nil {
		return nil
	}
	f := failureOf(err)
	of(ctx).outcome.cause = f.cause // no code, because the probe was answered
	if e := new(lease.NotReadyError); errors.As(err, &e) {
		return fmt.Errorf("%w: %s", f, e.Next)
	}
	return f
}

// try returns an error if the server cannot issue an ID now. Without a lease, it issues one.
func (s *Server) try(ctx context.Context) error {
	if s.drained.Err() != nil {
		return errDraining
	}
	i, err := s.issues()
	if err != nil {
		return err
	}
	if i.lease != nil {
		return i.lease.Ready()
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	_, err = i.gen.NextIDContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, snowflake.ErrLeaseExpired) {
		return nil
	}
	return err
}
