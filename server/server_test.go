package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// generator returns one with worker ID 7, of the default layout.
func generator(t testing.TB) *snowflake.Generator {
	t.Helper()
	gen, err := snowflake.New(7, nil)
	if err != nil {
		t.Fatal(err)
	}
	return gen
}

// serve starts a server on a free port of the loopback interface.
func serve(t testing.TB, gen *snowflake.Generator, o *server.Options) (*server.Server, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, listener, gen, o), "http://" + listener.Addr().String()
}

func serveOn(t testing.TB, listener net.Listener, gen *snowflake.Generator, o *server.Options) *server.Server {
	t.Helper()
	s, err := server.New(gen, o)
	if err != nil {
		t.Fatal(err)
	}
	h := s.HTTPServer("")
	h.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	go func() { _ = h.Serve(listener) }()
	t.Cleanup(func() { _ = h.Close() })
	return s
}

// http1 returns a client that speaks HTTP/1.1. If dial is nil, it dials TCP.
func http1(t testing.TB, dial dialer) *http.Client {
	transport := &http.Transport{DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// h2c returns a client that speaks HTTP/2 without TLS, as gRPC does.
func h2c(t testing.TB, dial dialer) *http.Client {
	transport := &http.Transport{DialContext: dial, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// protocols are the ways to call a method.
func protocols(t testing.TB, url string, dial dialer) map[string]snowflakev1connect.SnowflakeServiceClient {
	http1 := http1(t, dial)
	return map[string]snowflakev1connect.SnowflakeServiceClient{
		"gRPC":                   snowflakev1connect.NewSnowflakeServiceClient(h2c(t, dial), url, connect.WithGRPC()),
		"gRPC-Web":               snowflakev1connect.NewSnowflakeServiceClient(http1, url, connect.WithGRPCWeb()),
		"Connect, JSON":          snowflakev1connect.NewSnowflakeServiceClient(http1, url, connect.WithProtoJSON()),
		"Connect, HTTP/2":        snowflakev1connect.NewSnowflakeServiceClient(h2c(t, dial), url),
		"Connect, GET":           snowflakev1connect.NewSnowflakeServiceClient(http1, url, connect.WithHTTPGet()),
		"gRPC-Web, HTTP/2, gzip": snowflakev1connect.NewSnowflakeServiceClient(h2c(t, dial), url, connect.WithGRPCWeb(), connect.WithSendGzip()),
	}
}

func TestEveryMethodInEveryProtocol(t *testing.T) {
	gen := generator(t)
	_, url := serve(t, gen, nil)
	last := int64(0)
	for name, client := range protocols(t, url, nil) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			next, err := client.NextID(ctx, &pb.NextIDRequest{})
			if err != nil {
				t.Fatal(err)
			}
			all := []int64{last, next.Id}
			batch, err := client.Batch(ctx, &pb.BatchRequest{N: 5000})
			if err != nil || len(batch.Ids) != 5000 {
				t.Fatal(len(batch.GetIds()), err)
			}
			all = append(all, batch.Ids...)
			stream, err := client.Stream(ctx, &pb.StreamRequest{N: 2500})
			if err != nil {
				t.Fatal(err)
			}
			var sizes []int
			for stream.Receive() {
				all = append(all, stream.Msg().Ids...)
				sizes = append(sizes, len(stream.Msg().Ids))
			}
			if err := stream.Err(); err != nil || !slices.Equal(sizes, []int{1000, 1000, 500}) {
				t.Fatal(sizes, err)
			}
			for i := 1; i < len(all); i++ {
				if all[i] <= all[i-1] {
					t.Fatalf("%d is not above %d", all[i], all[i-1])
				}
			}
			last = all[len(all)-1]
			testReading(t, client, snowflake.ID(next.Id))
		})
	}
}

// testReading holds the methods that read against the library.
func testReading(t *testing.T, client snowflakev1connect.SnowflakeServiceClient, id snowflake.ID) {
	ctx := t.Context()
	want := snowflake.Decode(id)
	for _, in := range []*pb.DecodeRequest{
		{Value: &pb.DecodeRequest_Id{Id: int64(id)}},
		{Value: &pb.DecodeRequest_Text{Text: id.String()}},
		{Value: &pb.DecodeRequest_Text{Text: id.Base32()}},
		{Value: &pb.DecodeRequest_Text{Text: id.Base62()}, Layout: "default"},
		{Value: &pb.DecodeRequest_Text{Text: id.Base58()}, Layout: "41/10/12"},
	} {
		out, err := client.Decode(ctx, in)
		if err != nil || out.Id != int64(id) && out.Form != "base 62" || out.Layout.SequenceBits != 12 || out.Base62 == "" {
			t.Fatalf("%v: %v, %v", in, out, err)
		}
	}
	decoded, err := client.Decode(ctx, &pb.DecodeRequest{Value: &pb.DecodeRequest_Id{Id: int64(id)}})
	if err != nil || !decoded.Parts.Time.AsTime().Equal(want.Time) || decoded.Parts.Worker != 7 || decoded.Parts.Sequence != int64(want.Sequence) {
		t.Fatal(decoded, want, err)
	}
	encoded, err := client.Encode(ctx, &pb.EncodeRequest{Parts: decoded.Parts})
	if err != nil || encoded.Id != int64(id) {
		t.Fatal(encoded, err)
	}
	to := want.Time.Add(time.Second)
	lo, hi, _ := snowflake.TwitterLayout().Range(want.Time, to)
	bounds, err := client.Range(ctx, &pb.RangeRequest{From: timestamppb.New(want.Time), To: timestamppb.New(to), Layout: "twitter"})
	if err != nil || bounds.Lo != int64(lo) || bounds.Hi != int64(hi) {
		t.Fatal(bounds, lo, hi, err)
	}
	layout, err := client.Layout(ctx, &pb.LayoutRequest{Layout: "sonyflake@2020-01-01,20ms"})
	if err != nil || !layout.Layout.WorkerLast || layout.Layout.Unit.AsDuration() != 20*time.Millisecond || layout.Expires == nil {
		t.Fatal(layout, err)
	}
}

// get returns the answer to a GET.
func get(t testing.TB, url string, header ...string) (*http.Response, string) {
	t.Helper()
	return getBy(t, http.DefaultClient, url, header...)
}

func getBy(t testing.TB, client *http.Client, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func TestHTTPAnswersPlainTextOrJSON(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	_, text := get(t, url+"/ids?n=100", "Accept", "*/*")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 100 {
		t.Fatal(text)
	}
	for _, line := range lines {
		if id, err := snowflake.ParseID(line); err != nil || snowflake.Decode(id).Worker != 7 {
			t.Fatal(line, err)
		}
	}
	var ids struct{ IDs []string }
	resp, text := get(t, url+"/ids?n=3", "Accept", "text/html, application/json;q=0.9")
	if err := json.Unmarshal([]byte(text), &ids); err != nil || len(ids.IDs) != 3 || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatal(text, err)
	}
	_, text = get(t, url+"/id")
	id, err := snowflake.ParseID(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(text)
	}
	for _, form := range []string{id.String(), id.Base32(), id.Base62()} {
		if _, text := get(t, url+"/decode/"+form); text != fmt.Sprintf("%v %v\n", id, snowflake.Decode(id)) {
			t.Error(text)
		}
	}
	if _, text := get(t, url+"/decode/"+id.String()+"?layout=41/5/5/12@2020-01-01", "Accept", "application/json"); !strings.Contains(text, "epoch=2020-01-01T00:00:00.000Z") {
		t.Error(text)
	}
}

// What is refused names the field, in every protocol.
func TestBadInputNamesItsField(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	for path, field := range map[string]string{
		"/ids": "n", "/ids?n=0": "n", "/ids?n=-1": "n", "/ids?n=1e18": "n", "/ids?n=1000000000000000000": "n", "/ids?n=100001": "n",
		"/decode/x!": "id", "/decode/-1": "id", "/decode/9223372036854775808": "id", "/decode/12345?layout=nobody": "layout",
		"/decode/12345?layout=41/10": "layout", "/decode/12345?layout=63/0/0@0,-1s": "layout", "/decode/9223372036854775807?layout=45/0/18@0,1s": "id",
		"/decode/9223372036854775807?layout=jssafe": "id", "/decode/1/2": "id", "/decode/12345?layout=41/10/12@99999999999999999": "layout",
	} {
		var e struct{ Code, Message, Field string }
		resp, text := get(t, url+path, "Accept", "application/json")
		if err := json.Unmarshal([]byte(text), &e); err != nil || resp.StatusCode != 400 || e.Code != "invalid_argument" || e.Field != field || e.Message == "" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	now := timestamppb.Now()
	for protocol, c := range protocols(t, url, nil) {
		for field, call := range map[string]func(context.Context) error{
			"n":              func(ctx context.Context) error { _, err := c.Batch(ctx, &pb.BatchRequest{N: 1e18}); return err },
			"layout":         func(ctx context.Context) error { _, err := c.Layout(ctx, &pb.LayoutRequest{Layout: "x"}); return err },
			"parts.worker":   func(ctx context.Context) error { return encode(ctx, c, &pb.Parts{Time: now, Worker: 1024}) },
			"parts.clockseq": func(ctx context.Context) error { return encode(ctx, c, &pb.Parts{Time: now, Clockseq: -1}) },
			"parts.sequence": func(ctx context.Context) error { return encode(ctx, c, &pb.Parts{Time: now, Sequence: 1e18}) },
			"parts.time":     func(ctx context.Context) error { return encode(ctx, c, &pb.Parts{}) },
			"parts":          func(ctx context.Context) error { return encode(ctx, c, nil) },
			"from": func(ctx context.Context) error {
				_, err := c.Range(ctx, &pb.RangeRequest{From: timestamppb.New(time.Unix(0, 0)), To: now})
				return err
			},
			"to": func(ctx context.Context) error {
				_, err := c.Range(ctx, &pb.RangeRequest{From: now, To: timestamppb.New(now.AsTime().Add(-1))})
				return err
			},
			"batch": func(ctx context.Context) error {
				stream, err := c.Stream(ctx, &pb.StreamRequest{N: 5, Batch: -5})
				if err != nil {
					return err
				}
				stream.Receive()
				return stream.Err()
			},
		} {
			err := call(t.Context())
			if got := violation(err); connect.CodeOf(err) != connect.CodeInvalidArgument || got != field {
				t.Errorf("%s: %s: the error is of %q: %v", protocol, field, got, err)
			}
		}
	}
}

// A text that is too long is not sent back: errors of gRPC are headers, and clients bound the headers.
func TestLongTextsAreNotSentBack(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	long := strings.Repeat("1/", 5000)
	for protocol, c := range protocols(t, url, nil) {
		_, err := c.Layout(t.Context(), &pb.LayoutRequest{Layout: long})
		if connect.CodeOf(err) != connect.CodeInvalidArgument || violation(err) != "layout" || len(err.Error()) > 200 {
			t.Errorf("%s: %d bytes: %.200v", protocol, len(fmt.Sprint(err)), err)
		}
	}
	if resp, text := get(t, url+"/decode/5?layout="+long); resp.StatusCode != 400 || len(text) > 200 {
		t.Errorf("%v: %d bytes: %.200s", resp.Status, len(text), text)
	}
}

func encode(ctx context.Context, c snowflakev1connect.SnowflakeServiceClient, p *pb.Parts) error {
	_, err := c.Encode(ctx, &pb.EncodeRequest{Parts: p})
	return err
}

// violation returns the field that an error names.
func violation(err error) string {
	var e *connect.Error
	if !errors.As(err, &e) {
		return ""
	}
	for _, d := range e.Details() {
		if v, err := d.Value(); err == nil {
			if bad, ok := v.(*errdetails.BadRequest); ok {
				return bad.FieldViolations[0].Field
			}
		}
	}
	return ""
}

// While no ID can be issued, the answer says so, and when to call again.
func TestUnavailableSaysWhenToCallAgain(t *testing.T) {
	l, err := lease.Acquire(t.Context(), lease.File(t.TempDir()), &lease.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	leased, err := snowflake.NewLeased(l, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	back, err := snowflake.New(1, &snowflake.Options{Clock: snowflake.ClockFunc(func() time.Time { return now })})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := back.NextID(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-time.Hour)
	for name, gen := range map[string]*snowflake.Generator{"lease": leased, "clock": back} {
		o := &server.Options{}
		if gen == leased {
			o.Lease = l
		}
		_, url := serve(t, gen, o)
		for _, path := range []string{"/id", "/ids?n=5"} {
			if resp, text := get(t, url+path); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !strings.Contains(text, name) {
				t.Errorf("%s: %s: %v %s", name, path, resp, text)
			}
		}
		for protocol, c := range protocols(t, url, nil) {
			_, err := c.Batch(t.Context(), &pb.BatchRequest{N: 5})
			var e *connect.Error
			if !errors.As(err, &e) || e.Code() != connect.CodeUnavailable || e.Meta().Get("Retry-After") != "1" || len(e.Details()) != 1 {
				t.Errorf("%s: %s: %v", name, protocol, err)
			}
		}
		if resp, text := get(t, url+"/readyz"); resp.StatusCode != 503 || !strings.Contains(text, name) {
			t.Errorf("%s: %v %s", name, resp, text)
		}
	}
}

// A call whose IDs would come after its deadline says so.
func TestDeadlineExceeded(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		layout := snowflake.SonyflakeLayout() // 256 IDs in 10 ms: 100,000 take 4 s
		gen, err := snowflake.New(1, &snowflake.Options{Layout: layout})
		if err != nil {
			t.Fatal(err)
		}
		_, dial := serveInMemory(t, gen, &server.Options{Timeout: time.Second})
		if resp, text := getBy(t, http1(t, dial), inMemory+"/ids?n=100000"); resp.StatusCode != http.StatusGatewayTimeout {
			t.Error(resp, text)
		}
		for protocol, c := range protocols(t, inMemory, dial) {
			if _, err := c.Batch(t.Context(), &pb.BatchRequest{N: 100_000}); connect.CodeOf(err) != connect.CodeDeadlineExceeded {
				t.Errorf("%s: %v", protocol, err)
			}
		}
	})
}

// Another method than GET is told so, whether or not there is a Home.
func TestMethodsThatAreNotAllowed(t *testing.T) {
	for _, home := range []http.Handler{nil, http.NotFoundHandler()} {
		s, _ := serve(t, generator(t), &server.Options{Home: home})
		for _, path := range []string{"/id", "/ids?n=1", "/decode/1", "/openapi.json", "/healthz", "/readyz", "/metrics"} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
			if allow := w.Header().Get("Allow"); w.Code != http.StatusMethodNotAllowed || allow != "GET, HEAD" {
				t.Errorf("POST %s: %d, %q", path, w.Code, allow)
			}
		}
	}
}

func TestRequestsNeedAToken(t *testing.T) {
	token := "one"
	var mu sync.Mutex
	_, url := serve(t, generator(t), &server.Options{Tokens: func() []string { mu.Lock(); defer mu.Unlock(); return []string{token, "another"} }})
	for path, status := range map[string]int{"/id": 401, "/ids?n=1": 401, "/decode/1": 401, "/metrics": 401, "/healthz": 200, "/readyz": 200, "/openapi.json": 200} {
		if resp, _ := get(t, url+path); resp.StatusCode != status {
			t.Errorf("%s: %v", path, resp)
		}
	}
	for protocol, c := range protocols(t, url, nil) {
		if _, err := c.NextID(t.Context(), &pb.NextIDRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Error(protocol, err)
		}
	}
	for _, now := range []string{"one", "two", ""} { // it is rotated
		mu.Lock()
		token = now
		mu.Unlock()
		for _, sent := range []string{"one", "two", ""} {
			want := 401
			if sent == now && now != "" {
				want = 200
			}
			if resp, _ := get(t, url+"/id", "Authorization", "Bearer "+sent); resp.StatusCode != want {
				t.Errorf("token %q, sent %q: %v", now, sent, resp.Status)
			}
		}
	}
}

func TestDrainEndsStreamsAndReadiness(t *testing.T) {
	s, url := serve(t, generator(t), nil)
	c := snowflakev1connect.NewSnowflakeServiceClient(h2c(t, nil), url, connect.WithGRPC())
	stream, err := c.Stream(t.Context(), &pb.StreamRequest{N: 10_000_000, Batch: 1})
	if err != nil || !stream.Receive() {
		t.Fatal(err)
	}
	if resp, text := get(t, url+"/readyz"); resp.StatusCode != 200 {
		t.Error(text)
	}
	s.Drain()
	if resp, text := get(t, url+"/readyz"); resp.StatusCode != 503 || !resp.Close {
		t.Error(resp, text)
	}
	if resp, _ := get(t, url+"/id"); resp.StatusCode != 200 {
		t.Error("it serves no more")
	}
	for stream.Receive() {
	}
	if connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
		t.Error(stream.Err())
	}
}

func TestRequestsAreCountedAndLogged(t *testing.T) {
	var log bytes.Buffer
	s, err := server.New(generator(t), &server.Options{AccessLog: slog.New(slog.NewJSONHandler(&log, nil)),
		Home: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "home") })})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string) string {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Body.String()
	}
	ask("/id")
	ask("/ids?n=x")
	ask("/healthz")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/id", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Error(w.Code, w.Header())
	}
	ask("/snowflake.v1.SnowflakeService/" + strings.Repeat("x", 1000))
	if got := ask("/nothing/" + strings.Repeat("x", 1000)); got != "home" {
		t.Error(got)
	}
	metrics := ask("/metrics")
	for _, line := range []string{
		`snowflake_server_request_duration_seconds_count{code="ok",method="GET /id"} 1`,
		`snowflake_server_request_duration_seconds_count{code="invalid_argument",method="GET /ids"} 1`,
		`snowflake_server_request_duration_seconds_count{code="ok",method="/"} 1`,
		"snowflake_server_in_flight 0", "snowflake_ids_issued_total 1", "go_goroutines ",
	} {
		if !strings.Contains(metrics, "\n"+line) {
			t.Errorf("there is no metric %s in\n%s", line, metrics)
		}
	}
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 5 || !strings.Contains(lines[1], `"level":"WARN"`) ||
		!strings.Contains(lines[1], `"method":"GET /ids","code":"invalid_argument","status":400`) ||
		!strings.Contains(lines[3], `"asked":"GET /snowflake.v1.SnowflakeService/xxx`) || len(lines[3]) > 400 {
		t.Error(log.String())
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]*server.Options{
		"MaxIDs": {MaxIDs: -1}, "MaxStreamIDs": {MaxStreamIDs: -1}, "MaxInFlight": {MaxInFlight: 97},
		"Timeout": {Timeout: -1}, "MaxStreamTime": {MaxStreamTime: -1},
	} {
		if _, err := server.New(generator(t), o); !errors.Is(err, snowflake.ErrInvalidOptions) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := server.New(nil, nil); !errors.Is(err, snowflake.ErrInvalidOptions) {
		t.Error(err)
	}
}
