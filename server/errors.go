package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
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

// kind is an error with its code.
type kind struct {
	err  error
	code connect.Code
	told error // for the client, if the error may name users, databases, hosts or processes
}

// kinds has the codes of errors. The first that matches applies: an expired lease comes before a
// deadline, because its cause may be a deadline of the store.
var kinds = []kind{
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

// failure is an error as a client gets it.
type failure struct {
	code   connect.Code
	status int // of HTTP
	told   error
	field  *fieldError   // the field that is invalid, or nil
	retry  time.Duration // the time after which the same call may succeed; 0: it never does
	cause  error         // the error for the log, if told hides it
}

func (f failure) Error() string { return f.told.Error() }

// refused returns a failure of a request of HTTP that is no call, and has no code in the metrics.
func refused(status int, code connect.Code, format string, args ...any) failure {
	return failure{status: status, code: code, told: fmt.Errorf(format, args...)}
}

// classify returns the failure that answers an error.
func classify(err error) failure {
	f := failure{code: connect.CodeInternal, told: errInternal, cause: err}
	if errors.As(err, &f.field) {
		f.code, f.told, f.cause = connect.CodeInvalidArgument, err, nil
	} else if i := slices.IndexFunc(kinds, func(k kind) bool { return errors.Is(err, k.err) }); i >= 0 {
		f.code, f.told = kinds[i].code, cmp.Or(kinds[i].told, err)
		if f.told == err || f.told == errLate || f.told == errCanceled {
			f.cause = nil
		}
	}
	if f.code == connect.CodeUnavailable || f.code == connect.CodeResourceExhausted {
		f.retry = time.Second
		if q := quotaError(0); errors.As(err, &q) {
			f.retry = time.Duration(q)
		}
	}
	f.status = cmp.Or(statuses[f.code], http.StatusInternalServerError)
	return f
}

// fail returns the failure that answers an error, and notes it for the log and the metrics.
func fail(ctx context.Context, err error) failure {
	var f failure
	if !errors.As(err, &f) {
		f = classify(err)
		of(ctx).outcome = outcome{f.code.String(), f.cause}
	}
	return f
}

// header returns what the failure adds to the header of an answer.
func (f failure) header() http.Header {
	h := http.Header{}
	if f.retry > 0 {
		h.Set("Retry-After", fmt.Sprint(int64(math.Ceil(f.retry.Seconds()))))
	}
	if f.code == connect.CodeUnauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	return h
}

// rpc returns the failure as the error of a call.
func (f failure) rpc() *connect.Error {
	e := connect.NewError(f.code, f.told)
	maps.Copy(e.Meta(), f.header())
	if f.field != nil {
		add(e, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: f.field.field, Description: f.field.err.Error()},
		}})
		if f.field.most > 0 { // a client can ask again for fewer
			add(e, &errdetails.ErrorInfo{
				Reason: "TOO_MANY", Domain: "snowflake",
				Metadata: map[string]string{"field": f.field.field, "max": fmt.Sprint(f.field.most)},
			})
		}
	}
	if f.retry > 0 {
		add(e, &errdetails.RetryInfo{RetryDelay: durationpb.New(f.retry)})
	}
	return e
}

func add(e *connect.Error, detail proto.Message) {
	if d, err := connect.NewErrorDetail(detail); err == nil { // it can always be marshalled
		e.AddDetail(d)
	}
}

// problem is the form of all errors in JSON.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
}

func (p problem) text() []byte { return []byte(p.Message + "\n") }

// write answers a request of HTTP.
func (f failure) write(w http.ResponseWriter, r *http.Request) {
	p := problem{Code: f.code.String(), Message: f.told.Error()}
	if f.field != nil {
		p.Field = f.field.field
	}
	maps.Copy(w.Header(), f.header())
	write(w, r, f.status, p)
}

var rpcErrors = connect.NewErrorWriter()

// refuse answers a request with an error, in the protocol of the request.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	f := fail(r.Context(), err)
	if strings.HasPrefix(r.URL.Path, "/"+snowflakev1connect.SnowflakeServiceName+"/") && rpcErrors.IsSupported(r) {
		_ = rpcErrors.Write(w, r, f.rpc()) // fails only if the client is gone
		return
	}
	f.write(w, r)
}
