//go:build go1.25

package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/netcut"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

func TestEveryMethodInEveryProtocol(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	var all []int64
	for name, c := range protocols(t, url, nil) {
		t.Run(name, func(t *testing.T) {
			next, err := c.NextID(t.Context(), &pb.NextIDRequest{})
			require.NoError(t, err)
			batch, err := c.Batch(t.Context(), &pb.BatchRequest{N: 5000, Nonce: 77})
			require.NoError(t, err)
			require.Len(t, batch.Ids, 5000)
			require.EqualValues(t, 77, batch.Nonce)
			streamed, sizes, err := take(t.Context(), c, &pb.StreamRequest{N: 2500})
			require.NoError(t, err)
			require.Equal(t, []int{1000, 1000, 500}, sizes)
			all = slices.Concat(all, []int64{next.Id}, batch.Ids, streamed)
			for i := range all[1:] {
				require.Greater(t, all[i+1], all[i])
			}
			id := snowflake.ID(next.Id)
			want := snowflake.Decode(id)
			for _, in := range []*pb.DecodeRequest{
				{Value: &pb.DecodeRequest_Id{Id: int64(id)}},
				{Value: &pb.DecodeRequest_Text{Text: id.String()}},
				{Value: &pb.DecodeRequest_Text{Text: id.Base32()}},
				{Value: &pb.DecodeRequest_Text{Text: id.Base62()}, Layout: "default"},
				{Value: &pb.DecodeRequest_Text{Text: id.Base62()}, Layout: "41/10/12"},
			} {
				out, err := c.Decode(t.Context(), in)
				require.NoError(t, err, in)
				assert.EqualValues(t, id, out.Id, in)
				assert.Equal(t, []string{snowflake.DefaultLayout().String(), id.Base32(), id.Base58(),
					id.Base62()}, []string{out.Layout, out.Base32, out.Base58, out.Base62})
				assert.Equal(t, want.Time, out.Parts.Time.AsTime())
				assert.EqualValues(t, []int{7, want.Sequence}, []int{int(out.Parts.Worker), int(out.Parts.Sequence)})
			}
		})
	}
}

// Refusals name the field, in every protocol. A text that is too long is not sent back: errors of
// gRPC are headers, which clients limit.
func TestBadInputNamesItsField(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	long := strings.Repeat("1/", 5000)
	for protocol, c := range protocols(t, url, nil) {
		decode := func(in *pb.DecodeRequest) error { _, err := c.Decode(t.Context(), in); return err }
		_, batch := c.Batch(t.Context(), &pb.BatchRequest{N: 1e18})
		_, _, stream := take(t.Context(), c, &pb.StreamRequest{N: 5, Batch: -5})
		_, _, none := take(t.Context(), c, &pb.StreamRequest{})
		for _, refused := range []struct {
			field string
			err   error
		}{
			{"n", batch}, {"batch", stream}, {"n", none}, {"id", decode(&pb.DecodeRequest{})},
			{"text", decode(&pb.DecodeRequest{Value: &pb.DecodeRequest_Text{Text: "x!"}})},
			{"layout", decode(&pb.DecodeRequest{Value: &pb.DecodeRequest_Id{Id: 5}, Layout: "x"})},
			{"layout", decode(&pb.DecodeRequest{Value: &pb.DecodeRequest_Id{Id: 5}, Layout: long})},
		} {
			assert.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(refused.err), "%s: %v", protocol, refused.err)
			assert.Less(t, len(refused.err.Error()), 200, protocol)
			assert.Equal(t, refused.field,
				detail[*errdetails.BadRequest](t, refused.err).FieldViolations[0].Field, "%s: %v", protocol, refused.err)
		}
		tooMany := detail[*errdetails.ErrorInfo](t, batch)
		assert.Equal(t, "TOO_MANY", tooMany.Reason, protocol)
		assert.Equal(t, map[string]string{"field": "n", "max": "100000"}, tooMany.Metadata, protocol)
	}
}

// detail returns an error's only detail of its type.
func detail[D any](t *testing.T, err error) (found D) {
	t.Helper()
	var e *connect.Error
	require.ErrorAs(t, err, &e)
	n := 0
	for _, d := range e.Details() {
		v, err := d.Value()
		require.NoError(t, err)
		if v, ok := v.(D); ok {
			found, n = v, n+1
		}
	}
	require.Equal(t, 1, n, err)
	return found
}

// broken is a lease whose window has ended. extend asks its store for another window.
type broken struct{ extend func(context.Context) error }

func (b broken) Grant() snowflake.Grant {
	return snowflake.Grant{From: time.Now().Add(-2 * time.Hour), To: time.Now().Add(-time.Hour)}
}

func (b broken) Extend(ctx context.Context, _ snowflake.Grant, _ time.Time) error {
	return b.extend(ctx)
}

func brokenLease(t testing.TB, extend func(context.Context) error) *snowflake.Generator {
	t.Helper()
	gen, err := snowflake.NewLeased(broken{extend}, nil)
	require.NoError(t, err)
	return gen
}

// While no ID can be issued, the answer says so, with the time of a retry. The store's error is
// only logged, because it can name users, databases, hosts and processes. If it is a deadline of
// the store, the answer is not that of the call's deadline.
func TestUnavailableHasTheTimeOfARetry(t *testing.T) {
	const secret = "user=ids database=orders host=db.internal pid=7"
	now := time.Now()
	back, err := snowflake.New(1, &snowflake.Options{Clock: snowflake.ClockFunc(func() time.Time { return now })})
	require.NoError(t, err)
	_, err = back.NextID()
	require.NoError(t, err)
	now = now.Add(-time.Hour)
	for why, gen := range map[string]*snowflake.Generator{
		"clock went backward": back,
		secret:                brokenLease(t, func(context.Context) error { return errors.New(secret) }),
		"the store: context deadline exceeded": brokenLease(t,
			func(context.Context) error { return fmt.Errorf("the store: %w", context.DeadlineExceeded) }),
	} {
		var log bytes.Buffer
		_, url := serve(t, gen, &server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for _, path := range []string{"/readyz", "/id", "/ids?n=5"} {
			resp, text := get(t, http.DefaultClient, url+path, "Accept", "application/json")
			require.Equal(t, 503, resp.StatusCode, "%s: %s: %s", why, path, text)
			assert.Contains(t, text, "see the server's log")
			assert.NotContains(t, text, secret)
			assert.Equal(t, path != "/readyz", resp.Header.Get("Retry-After") == "1", path)
		}
		for protocol, c := range protocols(t, url, nil) {
			_, single := c.NextID(t.Context(), &pb.NextIDRequest{})
			_, batch := c.Batch(t.Context(), &pb.BatchRequest{N: 5})
			_, _, stream := take(t.Context(), c, &pb.StreamRequest{N: 1})
			for _, err := range []error{single, batch, stream} {
				require.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "%s: %s: %v", why, protocol, err)
				assert.ErrorContains(t, err, "see the server's log")
				assert.NotContains(t, err.Error(), secret)
				assert.EqualValues(t, 1, detail[*errdetails.RetryInfo](t, err).RetryDelay.Seconds)
			}
			assert.Equal(t, "1", single.(*connect.Error).Meta().Get("Retry-After"), protocol)
		}
		assert.Equal(t, 1, strings.Count(log.String(), why), "the log does not say why, or says it for each of many requests:\n%s", &log)
	}
}

// A busy server is ready, even if /readyz gets no ID within its time.
func TestBusyServerIsReady(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		// The layout has 25,600 IDs in a second.
		gen, err := snowflake.New(1, &snowflake.Options{Layout: layouts.Sonyflake(), Clock: snowflake.SystemClock()})
		require.NoError(t, err)
		for range 120 { // each takes a tick of 10 ms, in turn
			go func() { _, _ = gen.Fill(context.Background(), make([]snowflake.ID, 512)) }()
		}
		synctest.Wait()
		begun := time.Now()
		assert.Equal(t, 200, ask(newServer(t, gen, nil), "/readyz").Code)
		assert.LessOrEqual(t, time.Since(begun), time.Second)
		time.Sleep(10 * time.Second) // until Fill has its IDs
	})
}

// A generator that waits for the store looks like a busy one. So /readyz asks the lease: if the
// lease has expired, the server is not ready, says so and for how long at once, and logs the
// reason.
func TestServerWithAnExpiredLeaseIsNotReady(t *testing.T) {
	for why, takeAway := range map[string]func(*netcut.Store, *lease.Lease){
		"lease expired: netcut: the network is cut": func(network *netcut.Store, _ *lease.Lease) {
			network.Cut(true)
			time.Sleep(time.Minute)
		},
		"lease expired: released": func(_ *netcut.Store, l *lease.Lease) { _ = l.Release(context.Background()) },
	} {
		inFakeTime(t, func(t *testing.T) {
			network := netcut.Wrap(lease.File(t.TempDir()))
			l, err := lease.Acquire(t.Context(), network, &lease.Options{Window: 30 * time.Second, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			defer func() { _ = l.Release(context.Background()) }()
			var log strings.Builder
			gen := brokenLease(t, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			s := newServer(t, gen, &server.Options{Lease: l, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			holds := func(status int, says string) {
				t.Helper()
				begun := time.Now()
				w := ask(s, "/readyz")
				assert.Equal(t, status, w.Code, why)
				assert.Contains(t, w.Body.String(), says)
				assert.Zero(t, time.Since(begun), why)
			}
			holds(http.StatusOK, "ok")
			takeAway(network, l)
			holds(http.StatusServiceUnavailable, "see the server's log: ")
			assert.Contains(t, log.String(), why)
		})
	}
}

// A call whose IDs would be too late returns an error that says so.
func TestDeadlineExceeded(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		// The layout has 256 IDs in 10 ms, so 100,000 take 4 s.
		gen, err := snowflake.New(1, &snowflake.Options{Layout: layouts.Sonyflake(), Clock: snowflake.SystemClock()})
		require.NoError(t, err)
		var log strings.Builder
		_, dial := serveInMemory(t, gen, &server.Options{Timeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		begun := time.Now()
		resp, text := get(t, http1(t, dial), inMemory+"/ids?n=100000")
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode, text)
		for protocol, c := range protocols(t, inMemory, dial) {
			_, err := c.Batch(t.Context(), &pb.BatchRequest{N: 100_000})
			assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err), protocol)
		}
		assert.Equal(t, 7*950*time.Millisecond, time.Since(begun))
		assert.Empty(t, log.String(), "there is no fault to log")

		hangs := brokenLease(t, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		s := newServer(t, hangs, &server.Options{Timeout: time.Second})
		for path, code := range map[string]int{"/id": 504, "/readyz": 200} {
			begun := time.Now()
			assert.Equal(t, code, ask(s, path).Code, path)
			assert.Equal(t, 950*time.Millisecond, time.Since(begun), path)
		}
		// A program that uses the handler may set a deadline.
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		begun = time.Now()
		answer(s, httptest.NewRequest(http.MethodGet, "/id", nil).WithContext(ctx))
		assert.Equal(t, 300*time.Millisecond, time.Since(begun))
	})
}

func TestRequestsNeedAToken(t *testing.T) {
	var token atomic.Value
	token.Store("one")
	_, url := serve(t, generator(t), &server.Options{Tokens: func() []server.Token {
		return []server.Token{{Secret: token.Load().(string)}, {Secret: "another"}}
	}})
	for protocol, c := range protocols(t, url, nil) {
		_, err := c.NextID(t.Context(), &pb.NextIDRequest{})
		assert.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(err), protocol)
	}
	for _, now := range []string{"one", "two", ""} { // the token is rotated
		token.Store(now)
		for _, sent := range []string{"one", "two", ""} {
			resp, _ := get(t, http.DefaultClient, url+"/id", "Authorization", "Bearer "+sent)
			assert.Equal(t, sent == now && now != "", resp.StatusCode == 200, "token %q, sent %q: %v", now, sent, resp.Status)
		}
	}
}

// A token's name is in logs and metrics, and the IDs per second of all tokens with the name are
// limited. The limit may change.
func TestTokensHaveNamesAndQuotas(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		var log bytes.Buffer
		var quota atomic.Int64
		quota.Store(50)
		var burst atomic.Int64
		access := slog.New(slog.NewTextHandler(&log, nil))
		s, dial := serveInMemory(t, generator(t), &server.Options{MaxIDs: 100, AccessLog: access, Tokens: func() []server.Token {
			n, most := int(quota.Load()), int(burst.Load())
			return []server.Token{{Secret: "a", Name: "web", IDsPerSecond: n, Burst: most},
				{Secret: "b", Name: "web", IDsPerSecond: n, Burst: most}, {Secret: "c", Name: "batch"}}
		}})
		ask := func(token, path string, want int, retryAfter string) {
			t.Helper()
			resp, text := get(t, http1(t, dial), inMemory+path, "Authorization", "Bearer "+token)
			assert.Equal(t, want, resp.StatusCode, text)
			assert.Equal(t, retryAfter, resp.Header.Get("Retry-After"), text)
		}
		ask("a", "/ids?n=100", 400, "") // more than one second's
		ask("a", "/ids?n=50", 200, "")
		ask("b", "/id", 429, "1")
		ask("c", "/ids?n=100", 200, "")
		time.Sleep(time.Second)
		ask("b", "/ids?n=50", 200, "")
		ask("a", "/id", 429, "1")
		c := snowflakev1connect.NewSnowflakeServiceClient(h2c(t, dial), inMemory, connect.WithGRPC())
		ctx, info := connect.NewClientContext(t.Context())
		info.RequestHeader().Set("Authorization", "Bearer a")
		begun := time.Now()
		ids, sizes, err := take(ctx, c, &pb.StreamRequest{N: 500})
		require.NoError(t, err)
		assert.Len(t, ids, 500)
		assert.Len(t, sizes, 10)
		assert.InDelta(t, 10, time.Since(begun).Seconds(), 1, "500 IDs at 50 a second")
		_, _, err = take(ctx, c, &pb.StreamRequest{N: 500, Batch: 51})
		assert.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
		require.Equal(t, 7, strings.Count(log.String(), "client=web"), &log)
		assert.Equal(t, 1, strings.Count(log.String(), "client=batch"), &log)
		assert.Contains(t, metrics(s), `snowflake_server_client_requests_total{client="web",code="resource_exhausted"} 2`)
		quota.Store(5)
		burst.Store(100)
		ask("a", "/id", 429, "1")
		time.Sleep(20 * time.Second)
		ask("a", "/ids?n=100", 200, "")
		ask("b", "/ids?n=100", 429, "20")
		time.Sleep(10 * time.Second)
		ask("b", "/ids?n=100", 429, "10")
		_, err = c.Batch(ctx, &pb.BatchRequest{N: 51})
		assert.Equal(t, 200*time.Millisecond, detail[*errdetails.RetryInfo](t, err).RetryDelay.AsDuration())
	})
}

// A server without a generator answers probes and metrics, says what it waits for, and refuses
// requests that need a generator, until it gets one.
func TestServerThatWaitsSaysWhatFor(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s, dial := serveInMemory(t, nil,
			&server.Options{WaitsFor: func() string { return "the store has no entries" }, Watermark: heldBack})
		time.Sleep(42 * time.Second)
		const says = "the server waits for a worker ID, for 42s so far: the store has no entries"
		assert.Equal(t, 503, ask(s.Admin(), "/readyz").Code)
		assert.Contains(t, metrics(s), "\nsnowflake_server_waiting_seconds 42\n")
		assert.Contains(t, metrics(s), `code="http_503",method="GET /readyz"} 1`)
		for protocol, c := range protocols(t, inMemory, dial) {
			_, one := c.NextID(t.Context(), &pb.NextIDRequest{})
			_, batch := c.Batch(t.Context(), &pb.BatchRequest{N: 5})
			_, _, stream := take(t.Context(), c, &pb.StreamRequest{N: 5})
			for _, err := range []error{one, batch, stream} {
				assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), protocol)
				assert.ErrorContains(t, err, says, protocol)
			}
		}
		require.NoError(t, s.Begin(generator(t), nil))
		assert.Equal(t, 200, ask(s, "/readyz").Code)
		assert.Equal(t, 200, ask(s, "/id").Code)
		assert.Contains(t, metrics(s), "\nsnowflake_server_waiting_seconds 0\n")
		assert.Contains(t, metrics(s), "\nsnowflake_ids_issued_total 2\n")
		assert.Error(t, s.Begin(generator(t), nil), "its metrics are there already")
	})
}

// metrics returns a server's answer at /metrics.
func metrics(s *server.Server) string { return ask(s.Admin(), "/metrics").Body.String() }

func TestDrainEndsStreamsAndReadiness(t *testing.T) {
	s, url := serve(t, generator(t), nil)
	c := snowflakev1connect.NewSnowflakeServiceClient(h2c(t, nil), url, connect.WithGRPC())
	stream, err := c.Stream(t.Context(), &pb.StreamRequest{N: 10_000_000, Batch: 1})
	require.NoError(t, err)
	require.True(t, stream.Receive())
	resp, text := get(t, http.DefaultClient, url+"/readyz")
	assert.Equal(t, 200, resp.StatusCode, text)
	s.Drain()
	resp, text = get(t, http.DefaultClient, url+"/readyz")
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, `{"code":"unavailable","message":"the server is about to stop"}`+"\n", text)
	assert.True(t, resp.Close)
	resp, _ = get(t, http.DefaultClient, url+"/id")
	assert.Equal(t, 200, resp.StatusCode, "it serves no more")
	for stream.Receive() {
	}
	assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(stream.Err()))
}

func TestRequestsAreCountedAndLogged(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, generator(t), &server.Options{AccessLog: slog.New(slog.NewJSONHandler(&log, nil)),
		Home: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "home") })})
	for _, path := range []string{
		"/id", "/ids?n=x", "/healthz", "/metrics",
		"/snowflake.v1.SnowflakeService/" + strings.Repeat("x", 1000),
	} {
		ask(s, path)
	}
	answer(s, httptest.NewRequest(http.MethodPost, "/id", nil))
	probe := httptest.NewRequest(http.MethodPost, "/grpc.health.v1.Health/Check", strings.NewReader("{}"))
	probe.Header.Set("Content-Type", "application/json")
	answer(s, probe)
	large := httptest.NewRequest(http.MethodPost, snowflakev1connect.SnowflakeServiceDecodeProcedure, strings.NewReader("\x00\x00\xff\xff\xff"))
	large.ProtoMajor, large.Header["Content-Type"] = 2, []string{"application/grpc"}
	answer(s, large)
	assert.Equal(t, "home", ask(s, "/nothing/"+strings.Repeat("x", 1000)).Body.String())
	metrics := ask(s, "/metrics").Body.String()
	for _, line := range []string{
		`snowflake_server_request_duration_seconds_count{code="ok",method="GET /id"} 1`,
		`snowflake_server_request_duration_seconds_count{code="invalid_argument",method="GET /ids"} 1`,
		`snowflake_server_request_duration_seconds_count{code="http_405",method="/id"} 1`,
		`snowflake_server_request_duration_seconds_count{code="http_404",method="other"} 1`,
		`snowflake_server_request_duration_seconds_count{code="ok",method="/"} 1`,
		`snowflake_server_request_duration_seconds_count{code="grpc_8",method="Decode"} 1`, // connect refuses it
		`snowflake_server_request_duration_seconds_count{code="ok",method="grpc.health.v1.Health"} 1`,
		"snowflake_server_in_flight 0", "snowflake_ids_issued_total 2", "go_goroutines ", "go_build_info{",
	} {
		assert.Contains(t, metrics, "\n"+line)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 6, &log)
	assert.Contains(t, lines[0], `"level":"INFO","msg":"request","method":"GET /id","code":"ok","status":200,"bytes":`)
	assert.Contains(t, lines[1], `"level":"WARN","msg":"request","method":"GET /ids","code":"invalid_argument","status":400`)
	assert.Contains(t, lines[4], `"method":"Decode","code":"grpc_8","status":200`)
	assert.Contains(t, lines[2], `"asked":"GET /snowflake.v1.SnowflakeService/xxx`)
	assert.Less(t, len(lines[2]), 400)
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]*server.Options{
		"MaxIDs": {MaxIDs: -1}, "MaxInFlight": {MaxInFlight: 97}, "MaxPerClient": {MaxPerClient: 97},
		"Timeout": {Timeout: -1}, "MaxStreamTime": {MaxStreamTime: -1},
	} {
		_, err := server.New(generator(t), o)
		require.ErrorIs(t, err, snowflake.ErrInvalidOptions)
		assert.ErrorContains(t, err, name)
	}
	_, err := server.New(nil, nil)
	assert.ErrorIs(t, err, snowflake.ErrInvalidOptions)
}

// A body over 64 KiB is refused with this reason, with or without a Content-Length.
func TestLargeBodyIsTooLarge(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	for path, body := range map[string]string{
		"/identify": strings.Repeat("1 ", 40_000),
		snowflakev1connect.SnowflakeServiceDecodeProcedure: `{"layout":"` + strings.Repeat("x", 70<<10) + `"}`,
	} {
		for announced, r := range map[bool]io.Reader{true: strings.NewReader(body), false: io.MultiReader(strings.NewReader(body))} {
			resp, text := request(t, http.DefaultClient, http.MethodPost, url+path, r, "Content-Type", "application/json")
			assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode, "%s, announced: %t: %s", path, announced, text)
			assert.Contains(t, text, `"invalid_argument"`, "%s, announced: %t", path, announced)
		}
	}
}
