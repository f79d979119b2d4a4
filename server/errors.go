package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5394e6b1/snowflake"
)

// fieldError says which field of a request cannot be answered, and why.
type fieldError struct {
	field string
	err   error
}

func (e *fieldError) Error() string { return e.field + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

func wrong(field, format string, args ...any) error {
	return &fieldError{field, fmt.Errorf(format, args...)}
}

var (
	errToken    = errors.New("the bearer token is missing or wrong: send the header Authorization: Bearer TOKEN")
	errDraining = errors.New("the server is about to stop")
)

// retryAfter is when a client should call again.
const retryAfter = time.Second

// code returns the code of an error. An expired lease comes before a deadline, because its
// cause may be a deadline of the store's.
func code(err error) connect.Code {
	switch {
	case errors.As(err, new(*fieldError)):
		return connect.CodeInvalidArgument
	case errors.Is(err, snowflake.ErrLeaseExpired), errors.Is(err, snowflake.ErrClockBackward),
		errors.Is(err, snowflake.ErrBeforeEpoch), errors.Is(err, errDraining):
		return connect.CodeUnavailable
	case errors.Is(err, errBusy), errors.Is(err, errShare), errors.Is(err, errQuota):
		return connect.CodeResourceExhausted
	case errors.Is(err, errToken):
		return connect.CodeUnauthenticated
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case errors.Is(err, snowflake.ErrTimeExhausted):
		return connect.CodeFailedPrecondition
	}
	return connect.CodeInternal
}

// What a client is told of an error that may name users, databases, hosts or processes.
var (
	errUnavailable = errors.New("no ID can be issued now, because of the server's lease or clock: its log says why")
	errLate        = errors.New("the answer would come after the deadline")
	errCanceled    = errors.New("the client has gone")
	errUnread      = errors.New("the watermark cannot be read now: the server's log says why")
	errInternal    = errors.New("the server has failed: its log says why")
)

// told returns what a client is told of an error with a code.
func told(c connect.Code, err error) error {
	switch {
	case c == connect.CodeInvalidArgument, c == connect.CodeResourceExhausted, c == connect.CodeUnauthenticated, errors.Is(err, errDraining):
		return err
	case c == connect.CodeUnavailable:
		return errUnavailable
	case c == connect.CodeDeadlineExceeded:
		return errLate
	case c == connect.CodeCanceled:
		return errCanceled
	case c == connect.CodeFailedPrecondition:
		return snowflake.ErrTimeExhausted
	}
	return errInternal
}

// retriable is whether the same call may succeed later.
func retriable(c connect.Code) bool {
	return c == connect.CodeUnavailable || c == connect.CodeResourceExhausted
}

// tell returns what the client is told of an error with a code, and keeps the cause for the log.
func (q *request) tell(c connect.Code, err error) *connect.Error {
	shown := told(c, err)
	if shown != err && c != connect.CodeDeadlineExceeded && c != connect.CodeCanceled {
		q.cause = err
	}
	return connect.NewError(c, shown)
}

// fail makes the error of a call, and notes its code. It keeps an error that has one.
func fail(ctx context.Context, err error) *connect.Error {
	var e *connect.Error
	q := of(ctx)
	if !errors.As(err, &e) {
		e = q.tell(code(err), err)
	}
	q.code = e.Code().String()
	var field *fieldError
	switch {
	case errors.As(err, &field):
		add(e, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: field.field, Description: field.err.Error()},
		}})
	case retriable(e.Code()):
		e.Meta().Set("Retry-After", seconds(retryAfter))
		add(e, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
	case e.Code() == connect.CodeUnauthenticated:
		e.Meta().Set("WWW-Authenticate", "Bearer")
	}
	return e
}

func add(e *connect.Error, detail proto.Message) {
	if d, err := connect.NewErrorDetail(detail); err == nil { // it fails only for a message that cannot be marshalled
		e.AddDetail(d)
	}
}

func seconds(d time.Duration) string { return fmt.Sprint(int(d.Seconds())) }

// status returns the HTTP status of a code, as the Connect protocol has it.
func status(c connect.Code) int {
	switch c {
	case connect.CodeInvalidArgument:
		return http.StatusBadRequest
	case connect.CodeUnauthenticated:
		return http.StatusUnauthorized
	case connect.CodeResourceExhausted:
		return http.StatusTooManyRequests
	case connect.CodeCanceled:
		return 499
	case connect.CodeUnimplemented:
		return http.StatusNotImplemented
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
