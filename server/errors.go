package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5394e6b1/snowflake"
)

// fieldError says which field of a request is invalid, and why.
type fieldError struct {
	field string
	err   error
	most  int64 // the greatest value allowed, if the field is greater; otherwise 0
}

func (e *fieldError) Error() string { return e.field + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

func wrong(field, format string, args ...any) error {
	return &fieldError{field: field, err: fmt.Errorf(format, args...)}
}

// tooMany returns the error of a field that is greater than most.
func tooMany(field string, most int64, format string, args ...any) error {
	return &fieldError{field, fmt.Errorf(format, args...), most}
}

// quotaError says how long it takes until the client's quota allows the IDs.
type quotaError time.Duration

func (quotaError) Error() string {
	return "the token's IDs per second are used up: call again, or ask for fewer IDs"
}

// Is matches any quotaError.
func (quotaError) Is(target error) bool { _, ok := target.(quotaError); return ok }

// retryAfter returns when the same call may succeed.
func retryAfter(err error) time.Duration {
	var q quotaError
	if errors.As(err, &q) {
		return time.Duration(q)
	}
	return time.Second
}

var (
	errToken       = errors.New("the bearer token is missing or wrong: send the header Authorization: Bearer TOKEN")
	errWaiting     = errors.New("the server waits for a worker ID")
	errDraining    = errors.New("the server is about to stop")
	errBusy        = errors.New("too much is in flight: call again, or ask for fewer IDs at a time")
	errShare       = errors.New("too much of yours is in flight: read the answers, call again, or ask for fewer IDs at a time")
	errNoWatermark = errors.New("the server has no watermark")
	errUnread      = errors.New("the watermark cannot be read now: the server's log says why")
	errUnavailable = errors.New("no ID can be issued now, because of the server's lease or clock: its log says why")
	errLate        = errors.New("the answer would come after the deadline")
	errCanceled    = errors.New("the client has gone")
	errInternal    = errors.New("the server has failed: its log says why")
)

// kinds has the codes of errors. The first that matches applies: an expired lease comes before a
// deadline, because its cause may be a deadline of the store.
var kinds = []struct {
	err  error
	code connect.Code
	told error // for the client, if the error may name users, databases, hosts or processes
}{
	{snowflake.ErrLeaseExpired, connect.CodeUnavailable, errUnavailable},
	{snowflake.ErrClockBackward, connect.CodeUnavailable, errUnavailable},
	{snowflake.ErrBeforeEpoch, connect.CodeUnavailable, errUnavailable},
	{errWaiting, connect.CodeUnavailable, nil},
	{errDraining, connect.CodeUnavailable, nil},
	{errUnread, connect.CodeUnavailable, nil},
	{errNoWatermark, connect.CodeUnimplemented, nil},
	{errBusy, connect.CodeResourceExhausted, nil},
	{errShare, connect.CodeResourceExhausted, nil},
	{quotaError(0), connect.CodeResourceExhausted, nil},
	{errToken, connect.CodeUnauthenticated, nil},
	{context.DeadlineExceeded, connect.CodeDeadlineExceeded, errLate},
	{context.Canceled, connect.CodeCanceled, errCanceled},
	{snowflake.ErrTimeExhausted, connect.CodeFailedPrecondition, snowflake.ErrTimeExhausted},
}

// tell returns the code of an error and the error for the client. If that hides the cause, it keeps
// the cause for the log.
func (q *request) tell(err error) (code connect.Code, told error) {
	if errors.As(err, new(*fieldError)) {
		return connect.CodeInvalidArgument, err
	}
	for _, k := range kinds {
		switch {
		case !errors.Is(err, k.err):
			continue
		case k.told == nil:
			return k.code, err
		case k.told != errLate && k.told != errCanceled:
			q.cause = err
		}
		return k.code, k.told
	}
	q.cause = err
	return connect.CodeInternal, errInternal
}

// failed is fail, but returns nil if err is nil.
func failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return fail(ctx, err)
}

// fail returns the error of a call for the client, and notes its code for the log.
func fail(ctx context.Context, err error) *connect.Error {
	q := of(ctx)
	code, told := q.tell(err)
	q.code = code.String()
	e := connect.NewError(code, told)
	switch code {
	case connect.CodeInvalidArgument:
		var field *fieldError
		errors.As(err, &field)
		add(e, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: field.field, Description: field.err.Error()},
		}})
		if field.most > 0 { // a client can ask again for fewer
			add(e, &errdetails.ErrorInfo{
				Reason: "TOO_MANY", Domain: "snowflake",
				Metadata: map[string]string{"field": field.field, "max": fmt.Sprint(field.most)},
			})
		}
	case connect.CodeUnavailable, connect.CodeResourceExhausted:
		wait := retryAfter(err)
		e.Meta().Set("Retry-After", fmt.Sprint(int64(math.Ceil(wait.Seconds()))))
		add(e, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	case connect.CodeUnauthenticated:
		e.Meta().Set("WWW-Authenticate", "Bearer")
	}
	return e
}

func add(e *connect.Error, detail proto.Message) {
	if d, err := connect.NewErrorDetail(detail); err == nil { // it can always be marshalled
		e.AddDetail(d)
	}
}

// statuses has the HTTP statuses of codes, as the Connect protocol has them. The status of other
// codes is 500.
var statuses = map[connect.Code]int{
	connect.CodeInvalidArgument:   http.StatusBadRequest,
	connect.CodeUnauthenticated:   http.StatusUnauthorized,
	connect.CodeResourceExhausted: http.StatusTooManyRequests,
	connect.CodeCanceled:          499,
	connect.CodeUnimplemented:     http.StatusNotImplemented,
	connect.CodeUnavailable:       http.StatusServiceUnavailable,
	connect.CodeDeadlineExceeded:  http.StatusGatewayTimeout,
}
