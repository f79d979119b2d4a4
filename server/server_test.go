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
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/contract"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// generator returns one with worker ID 7, of the default layout.
func generator(t testing.TB) *snowflake.Generator {
	t.Helper()
	gen, err := snowflake.New(7, nil)
	require.NoError(t, err)
	return gen
}

// serve starts a server on a free port of the loopback interface.
func serve(t testing.TB, gen *snowflake.Generator, o *server.Options) (*server.Server, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serveOn(t, listener, gen, o), "http://" + listener.Addr().String()
}

func serveOn(t testing.TB, listener net.Listener, gen *snowflake.Generator, o *server.Options) *server.Server {
	t.Helper()
	s, err := server.New(gen, o)
	require.NoError(t, err)
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
			require.NoError(t, err)
			all := []int64{last, next.Id}
			batch, err := client.Batch(ctx, &pb.BatchRequest{N: 5000})
			if err != nil || len(batch.Ids) != 5000 {
				t.Fatal(len(batch.GetIds()), err)
			}
			all = append(all, batch.Ids...)
			stream, err := client.Stream(ctx, &pb.StreamRequest{N: 2500})
			require.NoError(t, err)
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
		if err != nil || out.Id != int64(id) && out.Form != "base 62" || out.Layout != snowflake.DefaultLayout().String() || out.Base62 == "" {
			t.Fatalf("%v: %v, %v", in, out, err)
		}
	}
	decoded, err := client.Decode(ctx, &pb.DecodeRequest{Value: &pb.DecodeRequest_Id{Id: int64(id)}})
	if err != nil || !decoded.Parts.Time.AsTime().Equal(want.Time) || decoded.Parts.Worker != 7 || decoded.Parts.Sequence != int32(want.Sequence) {
		t.Fatal(decoded, want, err)
	}
}

// get returns the answer to a GET.
func get(t testing.TB, url string, header ...string) (*http.Response, string) {
	t.Helper()
	return getBy(t, http.DefaultClient, url, header...)
}

func getBy(t testing.TB, client *http.Client, url string, header ...string) (*http.Response, string) {
	t.Helper()
	return request(t, client, http.MethodGet, url, nil, header...)
}

// post returns the answer to a POST.
func post(t testing.TB, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	return request(t, http.DefaultClient, http.MethodPost, url, strings.NewReader(body), header...)
}

func request(t testing.TB, client *http.Client, method, url string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(b)
}

func TestHTTPAnswersPlainTextOrJSON(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	_, text := get(t, url+"/ids?n=100", "Accept", "*/*")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	require.Len(t, lines, 100, text)
	for _, line := range lines {
		id, err := snowflake.ParseID(line)
		require.NoError(t, err, line)
		require.Equal(t, 7, snowflake.Decode(id).Worker, line)
	}
	var ids struct{ IDs []string }
	resp, text := get(t, url+"/ids?n=3", "Accept", "text/html, application/json;q=0.9")
	if err := json.Unmarshal([]byte(text), &ids); err != nil || len(ids.IDs) != 3 || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatal(text, err)
	}
	_, text = get(t, url+"/id")
	id, err := snowflake.ParseID(strings.TrimSpace(text))
	require.NoError(t, err, text)
	for _, form := range []string{id.String(), id.Base32(), id.Base62()} {
		if _, text := get(t, url+"/decode/"+form); !strings.HasPrefix(text, fmt.Sprintf("%v %v", id, snowflake.Decode(id))) {
			t.Error(text)
		}
	}
	_, text = get(t, url+"/decode/"+id.String()+"?layout=41/5/5/12@2020-01-01", "Accept", "application/json")
	assert.Contains(t, text, "epoch=2020-01-01T00:00:00.000Z")
}

// An ID that is taken apart has one form in JSON, whichever way it was asked for. Only the fraction of a
// second may have more zeros at its end.
func TestDecodedIDHasOneFormInJSON(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	for _, q := range []struct{ id, layout string }{
		{"117469438034341930", ""}, {"1541815603606036480", "twitter"}, {"0", "41/3/7/12"}, {"314948827708654619", "sonyflake"},
	} {
		_, called := post(t, url+"/snowflake.v1.SnowflakeService/Decode", fmt.Sprintf(`{"text":%q,"layout":%q}`, q.id, q.layout), "Content-Type", "application/json")
		_, text := get(t, url+"/decode/"+q.id+"?layout="+q.layout, "Accept", "application/json")
		var plain, connect map[string]any
		require.NoError(t, errors.Join(json.Unmarshal([]byte(text), &plain), json.Unmarshal([]byte(called), &connect)))
		for _, answer := range []map[string]any{plain, connect} {
			parts := answer["parts"].(map[string]any)
			at, err := time.Parse(time.RFC3339, parts["time"].(string))
			require.NoError(t, err)
			parts["time"] = at
			if parts["clockseq"] == 0.0 {
				delete(parts, "clockseq")
			}
			if parts["datacenter"] == 0.0 {
				delete(parts, "datacenter")
			}
		}
		assert.Equal(t, connect, plain)
	}
	resp, text := get(t, url+"/decode/1?layout=30/32/1")
	require.Equal(t, 400, resp.StatusCode)
	assert.Contains(t, text, "32 bits: 31 are the most")
}

func TestIdentifyGuessesTheLayout(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	_, ids := get(t, url+"/ids?n=20")
	var found struct{ Guesses []struct{ Form, Name string } }
	resp, text := post(t, url+"/identify", ids, "Accept", "application/json")
	if err := json.Unmarshal([]byte(text), &found); err != nil || resp.StatusCode != 200 || found.Guesses[0].Name != "default" || found.Guesses[0].Form != "decimal" {
		t.Error(resp.Status, text)
	}
	resp, text = post(t, url+"/identify", ids)
	require.Equal(t, 200, resp.StatusCode, "%v %v", resp.Status, text)
	assert.Contains(t, strings.SplitN(text, "\n", 2)[0], "%  default", "%v %v", resp.Status, text)
	for body, says := range map[string]string{"": "one a line", "12x y!": "12x"} {
		if resp, text := post(t, url+"/identify", body); resp.StatusCode != 400 || !strings.Contains(text, says) {
			t.Error(resp.Status, text)
		}
	}
	for announced, body := range map[bool]io.Reader{
		true:  strings.NewReader(strings.Repeat("1 ", 40_000)),
		false: io.MultiReader(strings.NewReader(strings.Repeat("1 ", 40_000))),
	} {
		if resp, text := request(t, http.DefaultClient, http.MethodPost, url+"/identify", body); resp.StatusCode != 413 {
			t.Errorf("its length is announced: %t: %v %s", announced, resp.Status, text)
		}
	}
	resp, _ = get(t, url+"/identify")
	require.Equal(t, 405, resp.StatusCode, resp.Status)
	assert.Equal(t, "POST", resp.Header.Get("Allow"), resp.Status)
}

// What is refused names the field, in every protocol.
func TestBadInputNamesItsField(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	for path, field := range map[string]string{
		"/ids": "n", "/ids?n=0": "n", "/ids?n=-1": "n", "/ids?n=1e18": "n", "/ids?n=1000000000000000000": "n", "/ids?n=100001": "n",
		"/decode/x!": "id", "/decode/abc": "id", "/decode/abcdef": "id", "/decode/-1": "id", "/decode/9223372036854775808": "id", "/decode/12345?layout=nobody": "layout",
		"/decode/12345?layout=41/10": "layout", "/decode/12345?layout=63/0/0@0,-1s": "layout", "/decode/9223372036854775807?layout=45/0/18@0,1s": "id",
		"/decode/9223372036854775807?layout=jssafe": "id", "/decode/1/2": "id", "/decode/12345?layout=41/10/12@99999999999999999": "layout",
	} {
		var e struct{ Code, Message, Field string }
		resp, text := get(t, url+path, "Accept", "application/json")
		if err := json.Unmarshal([]byte(text), &e); err != nil || resp.StatusCode != 400 || e.Code != "invalid_argument" || e.Field != field || e.Message == "" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	for protocol, c := range protocols(t, url, nil) {
		for field, call := range map[string]func(context.Context) error{
			"n": func(ctx context.Context) error { _, err := c.Batch(ctx, &pb.BatchRequest{N: 1e18}); return err },
			"layout": func(ctx context.Context) error {
				_, err := c.Decode(ctx, &pb.DecodeRequest{Value: &pb.DecodeRequest_Id{Id: 5}, Layout: "x"})
				return err
			},
			"text": func(ctx context.Context) error {
				_, err := c.Decode(ctx, &pb.DecodeRequest{Value: &pb.DecodeRequest_Text{Text: "x!"}})
				return err
			},
			"id": func(ctx context.Context) error { _, err := c.Decode(ctx, &pb.DecodeRequest{}); return err },
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
		_, err := c.Decode(t.Context(), &pb.DecodeRequest{Value: &pb.DecodeRequest_Id{Id: 5}, Layout: long})
		if connect.CodeOf(err) != connect.CodeInvalidArgument || violation(err) != "layout" || len(err.Error()) > 200 {
			t.Errorf("%s: %d bytes: %.200v", protocol, len(fmt.Sprint(err)), err)
		}
	}
	resp, text := get(t, url+"/decode/5?layout="+long)
	require.Equal(t, 400, resp.StatusCode, "%v: %d bytes: %.200s", resp.Status, len(text), text)
	assert.LessOrEqual(t, len(text), 200, "%v: %d bytes: %.200s", resp.Status, len(text), text)
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
	require.NoError(t, err)
	leased, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
	now := time.Now()
	back, err := snowflake.New(1, &snowflake.Options{Clock: snowflake.ClockFunc(func() time.Time { return now })})
	require.NoError(t, err)
	_, err = back.NextID()
	require.NoError(t, err)
	now = now.Add(-time.Hour)
	for name, gen := range map[string]*snowflake.Generator{"lease": leased, "clock": back} {
		o := &server.Options{}
		if gen == leased {
			o.Lease = l
		}
		_, url := serve(t, gen, o)
		for _, path := range []string{"/id", "/ids?n=5"} {
			resp, text := get(t, url+path)
			require.Equal(t, 503, resp.StatusCode, "%s: %s: %v %s", name, path, resp, text)
			require.Equal(t, "1", resp.Header.Get("Retry-After"), "%s: %s: %v %s", name, path, resp, text)
			assert.Contains(t, text, name, "%s: %s: %v %s", name, path, resp, text)
		}
		for protocol, c := range protocols(t, url, nil) {
			_, err := c.Batch(t.Context(), &pb.BatchRequest{N: 5})
			var e *connect.Error
			if !errors.As(err, &e) || e.Code() != connect.CodeUnavailable || e.Meta().Get("Retry-After") != "1" || len(e.Details()) != 1 {
				t.Errorf("%s: %s: %v", name, protocol, err)
			}
		}
		resp, text := get(t, url+"/readyz")
		require.Equal(t, 503, resp.StatusCode, "%s: %v %s", name, resp, text)
		assert.Contains(t, text, name, "%s: %v %s", name, resp, text)
	}
}

// broken is a lease whose window is over. It asks its store for another window by calling extend.
type broken struct{ extend func(context.Context) error }

func (b broken) Grant() snowflake.Grant {
	return snowflake.Grant{From: time.Now().Add(-2 * time.Hour), To: time.Now().Add(-time.Hour)}
}

func (b broken) Terms() contract.Terms[snowflake.Layout, snowflake.Clock, snowflake.Grant] {
	return contract.Terms[snowflake.Layout, snowflake.Clock, snowflake.Grant]{Extend: func(ctx context.Context, _ snowflake.Grant, _ time.Time) error { return b.extend(ctx) }}
}

// brokenLease returns a generator whose lease has ended because of an error of its store.
func brokenLease(t testing.TB, err error) *snowflake.Generator {
	t.Helper()
	gen, e := snowflake.NewLeased(broken{func(context.Context) error { return err }}, nil)
	require.NoError(t, e)
	return gen
}

// What the store says stays in the log, because it can name users, databases, hosts and processes.
func TestOutsidersDoNotSeeTheCause(t *testing.T) {
	const secret = "user=ids database=orders host=db.internal pid=7"
	var log bytes.Buffer
	gen := brokenLease(t, errors.New(secret))
	_, url := serve(t, gen, &server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, path := range []string{"/readyz", "/id", "/ids?n=2"} {
		resp, text := get(t, url+path, "Accept", "application/json")
		require.Equal(t, 503, resp.StatusCode, "%s: %v %s", path, resp, text)
		require.NotContains(t, text, "db.internal", "%s: %v %s", path, resp, text)
		assert.Contains(t, text, "its log says why", "%s: %v %s", path, resp, text)
	}
	for protocol, c := range protocols(t, url, nil) {
		stream, err := c.Stream(t.Context(), &pb.StreamRequest{N: 1})
		if err == nil {
			stream.Receive()
			err = stream.Err()
		}
		_, single := c.NextID(t.Context(), &pb.NextIDRequest{})
		for _, err := range []error{err, single} {
			require.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "%s: %v", protocol, err)
			require.NotContains(t, err.Error(), "db.internal", "%s: %v", protocol, err)
			assert.Contains(t, err.Error(), "its log says why", "%s: %v", protocol, err)
		}
	}
	if text := log.String(); strings.Count(text, secret) != 1 {
		t.Errorf("the log does not say why, or says it for each of many requests:\n%s", text)
	}
}

// A server whose next IDs are all wanted is ready, although no ID comes within the time that /readyz waits.
func TestBusyServerIsReady(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		gen, err := snowflake.New(1, &snowflake.Options{Layout: layouts.Sonyflake()}) // 25,600 IDs in a second
		require.NoError(t, err)
		s, err := server.New(gen, nil)
		require.NoError(t, err)
		for range 120 { // each takes a tick of 10 ms, in turn
			go func() { _, _ = gen.Fill(context.Background(), make([]snowflake.ID, 512)) }()
		}
		synctest.Wait()
		begun, w := time.Now(), httptest.NewRecorder()
		if s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil)); w.Code != 200 || time.Since(begun) > time.Second {
			t.Errorf("%d %s after %v", w.Code, w.Body, time.Since(begun))
		}
		time.Sleep(10 * time.Second) // until Fill has its IDs
	})
}

// A lease whose store did not answer before a deadline is away: the server is not busy, but not ready.
func TestLeaseThatEndedByADeadlineIsNotReady(t *testing.T) {
	s, err := server.New(brokenLease(t, fmt.Errorf("the store: %w", context.DeadlineExceeded)), nil)
	require.NoError(t, err)
	for _, path := range []string{"/readyz", "/id"} {
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// A call whose IDs would come after its deadline says so.
func TestDeadlineExceeded(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		layout := layouts.Sonyflake() // 256 IDs in 10 ms: 100,000 take 4 s
		gen, err := snowflake.New(1, &snowflake.Options{Layout: layout})
		require.NoError(t, err)
		_, dial := serveInMemory(t, gen, &server.Options{Timeout: time.Second})
		resp, text := getBy(t, http1(t, dial), inMemory+"/ids?n=100000")
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode, "%v %v", resp, text)
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
		for _, path := range []string{"/id", "/ids?n=1", "/decode/1", "/watermark", "/openapi.json", "/healthz", "/readyz", "/metrics"} {
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
	_, url := serve(t, generator(t), &server.Options{Tokens: func() []server.Token {
		mu.Lock()
		defer mu.Unlock()
		return []server.Token{{Secret: token}, {Secret: "another"}}
	}})
	for path, status := range map[string]int{"/id": 401, "/ids?n=1": 401, "/decode/1": 401, "/watermark": 401, "/metrics": 401, "/healthz": 200, "/readyz": 200, "/openapi.json": 200} {
		resp, _ := get(t, url+path)
		assert.Equal(t, status, resp.StatusCode, "%s: %v", path, resp)
	}
	for protocol, c := range protocols(t, url, nil) {
		_, err := c.NextID(t.Context(), &pb.NextIDRequest{})
		assert.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(err), protocol)
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
			resp, _ := get(t, url+"/id", "Authorization", "Bearer "+sent)
			assert.Equal(t, want, resp.StatusCode, "token %q, sent %q: %v", now, sent, resp.Status)
		}
	}
}

// Probes and metrics at an address of their own need no token, and nothing else is there.
func TestAdminHandlerServesProbesAndMetrics(t *testing.T) {
	s, err := server.New(generator(t), &server.Options{Tokens: func() []server.Token { return []server.Token{{Secret: "one"}} }})
	require.NoError(t, err)
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/id": 404, "/": 404} {
		w := httptest.NewRecorder()
		if s.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != status {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	s.Drain()
	w := httptest.NewRecorder()
	if s.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil)); w.Code != 503 {
		t.Error(w.Code)
	}
}

// A text that is no decimal number can be an ID in several forms, so the answer names the form.
func TestDecodeNamesTheForm(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	for text, want := range map[string]string{"abcdefg": " form=\"base 58\"\n", "12345": " sequence=57\n"} {
		_, got := get(t, url+"/decode/"+text)
		assert.True(t, strings.HasSuffix(got, want), "%s: %s", text, got)
	}
}

// A token's name is in the log and the metrics, and its IDs per second are bounded, over all its tokens.
func TestTokensHaveNamesAndQuotas(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		var log bytes.Buffer
		s, dial := serveInMemory(t, generator(t), &server.Options{MaxIDs: 100, AccessLog: slog.New(slog.NewTextHandler(&log, nil)), Tokens: func() []server.Token {
			return []server.Token{{Secret: "a", Name: "web", IDsPerSecond: 50}, {Secret: "b", Name: "web", IDsPerSecond: 50}, {Secret: "c", Name: "batch"}}
		}})
		ask := func(token, path string, want int) {
			t.Helper()
			resp, text := getBy(t, http1(t, dial), inMemory+path, "Authorization", "Bearer "+token)
			if resp.StatusCode != want || want == 429 && (resp.Header.Get("Retry-After") != "1" || !strings.Contains(text, "per second")) {
				t.Errorf("%s: %s: %v %s", token, path, resp, text)
			}
		}
		ask("a", "/ids?n=100", 200) // as much as one call may ask for
		ask("b", "/id", 429)
		ask("c", "/ids?n=100", 200)
		time.Sleep(time.Second)
		ask("b", "/ids?n=50", 200)
		ask("a", "/id", 429)
		c := snowflakev1connect.NewSnowflakeServiceClient(h2c(t, dial), inMemory, connect.WithGRPC())
		ctx, info := connect.NewClientContext(t.Context())
		info.RequestHeader().Set("Authorization", "Bearer a")
		begun, n := time.Now(), 0
		stream, err := c.Stream(ctx, &pb.StreamRequest{N: 500, Batch: 100})
		require.NoError(t, err)
		for stream.Receive() {
			n += len(stream.Msg().Ids)
		}
		if took := time.Since(begun); stream.Err() != nil || n != 500 || took < 9*time.Second || took > 11*time.Second {
			t.Errorf("a stream of 500 IDs at 50 a second has %d after %v: %v", n, took, stream.Err())
		}
		text := log.String()
		require.Equal(t, 5, strings.Count(text, "client=web"), text)
		assert.Equal(t, 1, strings.Count(text, "client=batch"), text)
		w := httptest.NewRecorder()
		s.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if want := `snowflake_server_client_requests_total{client="web",code="resource_exhausted"} 2`; !strings.Contains(w.Body.String(), want) {
			t.Errorf("there is no %s in\n%s", want, w.Body)
		}
	})
}

// A page of another site, whose name leads to the loopback interface, gets nothing.
func TestNamesThatAreNotTheServersAreRefused(t *testing.T) {
	s, err := server.New(generator(t), &server.Options{Hosts: []string{"ids.internal"}})
	require.NoError(t, err)
	for host, want := range map[string]int{
		"localhost": 200, "LocalHost:8080": 200, "127.0.0.1:8080": 200, "127.0.0.2": 200, "[::1]:8080": 200, "[::1]": 200, "ids.internal:80": 200, "": 200,
		"evil.example": 421, "evil.example:8080": 421, "localhost.evil.example": 421, "10.0.0.1": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/id", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d %s", host, w.Code, w.Body)
		}
	}
}

func TestDrainEndsStreamsAndReadiness(t *testing.T) {
	s, url := serve(t, generator(t), nil)
	c := snowflakev1connect.NewSnowflakeServiceClient(h2c(t, nil), url, connect.WithGRPC())
	stream, err := c.Stream(t.Context(), &pb.StreamRequest{N: 10_000_000, Batch: 1})
	require.NoError(t, err)
	require.True(t, stream.Receive())
	resp, text := get(t, url+"/readyz")
	assert.Equal(t, 200, resp.StatusCode, text)
	s.Drain()
	resp, text = get(t, url+"/readyz")
	require.Equal(t, 503, resp.StatusCode, "%v %v", resp, text)
	assert.True(t, resp.Close, "%v %v", resp, text)
	resp, _ = get(t, url+"/id")
	assert.Equal(t, 200, resp.StatusCode, "it serves no more")
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
	require.NoError(t, err)
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
	assert.Equal(t, "home", ask("/nothing/"+strings.Repeat("x", 1000)))
	metrics := ask("/metrics")
	for _, line := range []string{
		`snowflake_server_request_duration_seconds_count{code="ok",method="GET /id"} 1`,
		`snowflake_server_request_duration_seconds_count{code="invalid_argument",method="GET /ids"} 1`,
		`snowflake_server_request_duration_seconds_count{code="ok",method="/"} 1`,
		"snowflake_server_in_flight 0", "snowflake_ids_issued_total 1", "go_goroutines ", "go_build_info{",
	} {
		assert.Contains(t, metrics, "\n"+line, "there is no metric %s in\n%s", line, metrics)
	}
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 5 || !strings.Contains(lines[1], `"level":"WARN"`) ||
		!strings.Contains(lines[1], `"method":"GET /ids","code":"invalid_argument","status":400`) ||
		!strings.Contains(lines[3], `"asked":"GET /snowflake.v1.SnowflakeService/xxx`) || len(lines[3]) > 400 {
		t.Error(log.String())
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]*server.Options{
		"MaxIDs": {MaxIDs: -1}, "MaxStreamIDs": {MaxStreamIDs: -1}, "MaxInFlight": {MaxInFlight: 97}, "MaxPerClient": {MaxPerClient: 97},
		"Timeout": {Timeout: -1}, "MaxStreamTime": {MaxStreamTime: -1},
	} {
		_, err := server.New(generator(t), o)
		require.ErrorIs(t, err, snowflake.ErrInvalidOptions)
		assert.Contains(t, err.Error(), name)
	}
	_, err := server.New(nil, nil)
	assert.ErrorIs(t, err, snowflake.ErrInvalidOptions)
}
