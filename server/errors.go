package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// failure is an error for a client.
type failure struct {
	code    connect.Code
	status  int    // the HTTP status, if it is not that of the code
	field   string // the invalid field, or ""
	message string
	most    int64         // the field's maximum, if the field is greater; otherwise 0
	retry   time.Duration // the time after which the same call may succeed; 0 means never
	cause   error         // the error for the log, if the client must not see it
}

func (f failure) Error() string {
	if f.field == "" {
		return f.message
	}
	return f.field + ": " + f.message
}

// failed returns the failure of a call.
func failed(code connect.Code, format string, args ...any) failure {
	f := failure{code: code, message: fmt.Sprintf(format, args...)}
	if code == connect.CodeUnavailable || code == connect.CodeResourceExhausted {
		f.retry = time.Second
	}
	return f
}

// wrong returns the failure of an invalid field.
func wrong(field, format string, args ...any) failure {
	return failure{code: connect.CodeInvalidArgument, field: field, message: fmt.Sprintf(format, args...)}
}

// invalid returns the failure of a field that a parser refuses.
func invalid(field string, err error) failure {
	return wrong(field, "%s", strings.TrimPrefix(err.Error(), "snowflake: "))
}

// tooMany returns the failure of a field that is greater than most.
func tooMany(field string, most int64, format string, args ...any) failure {
	f := wrong(field, format, args...)
	f.most = most
	return f
}

// refused returns the failure of an HTTP request that is not a call, and has no code in metrics.
func refused(status int, code connect.Code, format string, args ...any) failure {
	return failure{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

var (
	errToken       = failed(connect.CodeUnauthenticated, "the bearer token is missing or wrong: send the header Authorization: Bearer TOKEN")
	errDraining    = failed(connect.CodeUnavailable, "the server is about to stop")
	errBusy        = failed(connect.CodeResourceExhausted, "too much is in flight: call again, or ask for fewer IDs at a time")
	errShare       = failed(connect.CodeResourceExhausted, "too much of yours is in flight: read the answers, call again, or ask for fewer IDs at a time")
	errQuota       = failed(connect.CodeResourceExhausted, "the token's IDs per second are used up: call again, or ask for fewer IDs")
	errNoWatermark = failed(connect.CodeUnimplemented, "the server has no watermark")
	errUnread      = failed(connect.CodeUnavailable, "the watermark cannot be read now: the server's log says why")
	errUnavailable = failed(connect.CodeUnavailable, "no ID can be issued now: the server's lease has expired, or its clock is wrong; see the server's log")
	errExhausted   = failed(connect.CodeFailedPrecondition, "%v", snowflake.ErrTimeExhausted)
	errLate        = failed(connect.CodeDeadlineExceeded, "the answer would be later than the deadline")
	errCanceled    = failed(connect.CodeCanceled, "the client has gone")
	errInternal    = failed(connect.CodeInternal, "the server has failed: its log says why")
)

// failures maps errors of other packages, which may name users, databases, hosts or processes, to
// failures. The first match applies: the cause of an expired lease may be a deadline of the store.
var failures = []struct {
	err    error
	told   failure
	logged bool
}{
	{snowflake.ErrLeaseExpired, errUnavailable, true},
	{snowflake.ErrClockBackward, errUnavailable, true},
	{snowflake.ErrBeforeEpoch, errUnavailable, true},
	{context.DeadlineExceeded, errLate, false},
	{context.Canceled, errCanceled, false},
	{snowflake.ErrTimeExhausted, errExhausted, true},
}

// failureOf returns the failure for an error.
func failureOf(err error) (f failure) {
	if errors.As(err, &f) {
		return f
	}
	for _, known := range failures {
		if errors.Is(err, known.err) {
			f = known.told
			if known.logged {
				f.cause = err
			}
			return f
		}
	}
	f = errInternal
	f.cause = err
	return f
}

// fail returns the failure for an error, and records it for logs and metrics.
func fail(ctx context.Context, err error) failure {
	f := failureOf(err)
	if f.status == 0 {
		of(ctx).outcome = outcome{f.code.String(), f.cause}
	}
	return f
}

// header returns the failure's headers.
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
	e := connect.NewError(f.code, f)
	maps.Copy(e.Meta(), f.header())
	add := func(detail proto.Message) {
		if d, err := connect.NewErrorDetail(detail); err == nil { // does not fail for these messages
			e.AddDetail(d)
		}
	}
	if f.field != "" {
		add(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: f.field, Description: f.message}}})
	}
	if f.most > 0 { // for clients that then ask for fewer
		add(&errdetails.ErrorInfo{
			Reason: "TOO_MANY", Domain: "snowflake", Metadata: map[string]string{"field": f.field, "max": fmt.Sprint(f.most)},
		})
	}
	if f.retry > 0 {
		add(&errdetails.RetryInfo{RetryDelay: durationpb.New(f.retry)})
	}
	return e
}

// statuses maps codes to HTTP statuses, as the Connect protocol does. Other codes, which are not
// the client's fault, have status 500.
var statuses = map[connect.Code]int{
	connect.CodeInvalidArgument:   http.StatusBadRequest,
	connect.CodeUnauthenticated:   http.StatusUnauthorized,
	connect.CodeResourceExhausted: http.StatusTooManyRequests,
	connect.CodeCanceled:          499,
	connect.CodeUnimplemented:     http.StatusNotImplemented,
	connect.CodeUnavailable:       http.StatusServiceUnavailable,
	connect.CodeDeadlineExceeded:  http.StatusGatewayTimeout,
}

// problem is an error in JSON.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
}

func (p problem) text() []byte { return []byte(p.Message + "\n") }

// write writes the answer to an HTTP request.
func (f failure) write(w http.ResponseWriter, r *http.Request) {
	maps.Copy(w.Header(), f.header())
	status := cmp.Or(f.status, statuses[f.code], http.StatusInternalServerError)
	write(w, r, status, problem{f.code.String(), f.Error(), f.field})
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
