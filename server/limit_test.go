//go:build unix && go1.25

package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/server"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// heap returns the number of bytes in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// The limit of a compressed body is for its uncompressed size.
func TestHugeCompressedBodyIsRefused(t *testing.T) {
	_, url := serve(t, generator(t), nil)
	c := snowflakev1connect.NewSnowflakeServiceClient(h2c(t, nil), url, connect.WithSendGzip())
	_, err := c.Decode(t.Context(), &pb.DecodeRequest{Layout: strings.Repeat("x", 1<<24)})
	assert.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
}

func TestSlowClientsAreDisconnected(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		_, dial := serveInMemory(t, generator(t), &server.Options{Timeout: 10 * time.Second})
		for _, client := range []struct {
			part, sent string
			limit      time.Duration
		}{
			{"header", "GET /id HTTP/1.1\r\nHost: x\r\nX-Slow: ", 5 * time.Second},
			{"body", "POST " + snowflakev1connect.SnowflakeServiceBatchProcedure +
				" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{", 9500 * time.Millisecond}, // the rest of Timeout is for the answer
		} {
			conn, err := dial(t.Context(), "", "")
			require.NoError(t, err)
			defer conn.Close()
			begun := time.Now()
			fmt.Fprint(conn, client.sent)
			_ = conn.SetReadDeadline(begun.Add(time.Minute))
			if _, err := io.Copy(io.Discard, conn); err != nil || time.Since(begun) != client.limit {
				t.Errorf("a client does not send its %s: it is given up after %v, not %v: %v", client.part,
					time.Since(begun), client.limit, err)
			}
		}
	})
}

// unreadStream requests a stream without reading it.
func unreadStream(t *testing.T, dial dialer, in *pb.StreamRequest) net.Conn {
	t.Helper()
	conn, err := dial(t.Context(), "", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	b, err := proto.Marshal(in)
	require.NoError(t, err)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+proto\r\nContent-Length: %d\r\n\r\n\x00\x00\x00\x00%c%s",
		snowflakev1connect.SnowflakeServiceStreamProcedure, len(b)+5, rune(len(b)), b)
	return conn
}

const nothingInFlight = "snowflake_server_in_flight 0\n"

// Clients that do not read their streams are given up, and use little memory until then.
func TestUnreadStreamsAreEnded(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s, dial := serveInMemory(t, generator(t), &server.Options{Timeout: 10 * time.Second, MaxPerClient: 1024})
		before := heap()
		clients := depth.Of(20, 100)
		for range clients {
			unreadStream(t, dial, &pb.StreamRequest{N: 10_000_000, Batch: 10_000})
		}
		time.Sleep(9 * time.Second)
		require.Contains(t, metrics(s), fmt.Sprintf("snowflake_server_in_flight %d\n", clients*(1+10_000/1024)))
		if used := heap() - before; used > int64(clients)*4<<20 {
			t.Errorf("%d streams hold %d bytes", clients, used)
		}
		time.Sleep(2 * time.Second)
		m := metrics(s)
		require.Contains(t, m, nothingInFlight)
		assert.Contains(t, m, `method="Stream"`)
	})
}

// Clients that do not read their answers are given up, and then no longer count.
func TestUnreadAnswersAreEnded(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s, dial := serveInMemory(t, generator(t), &server.Options{Timeout: 10 * time.Second})
		http2 := h2c(t, dial)
		http2.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
		for i := range 5 {
			client := []*http.Client{http2, http1(t, dial)}[i%2]
			resp, err := client.Get(inMemory + "/ids?n=100000")
			require.NoError(t, err)
			defer resp.Body.Close()
		}
		assert.NotContains(t, metrics(s), nothingInFlight)
		time.Sleep(10 * time.Second)
		assert.Contains(t, metrics(s), nothingInFlight)
	})
}

// If its client reads IDs, a stream may last longer than a call, up to its own limit.
func TestStreamOutlivesTimeoutUntilMaxStreamTime(t *testing.T) {
	for _, protocol := range []string{"gRPC", "gRPC-Web"} {
		inFakeTime(t, func(t *testing.T) {
			// The layout has 25,600 IDs in a second.
			gen, err := snowflake.New(1, &snowflake.Options{Layout: layouts.Sonyflake(), Clock: snowflake.SystemClock()})
			require.NoError(t, err)
			_, dial := serveInMemory(t, gen, &server.Options{Timeout: time.Second, MaxStreamTime: 4 * time.Second})
			client := protocols(t, inMemory, dial)[protocol]
			ids, _, err := take(t.Context(), client, &pb.StreamRequest{N: 64_000})
			require.NoError(t, err, protocol)
			assert.Len(t, ids, 64_000, protocol)
			ids, _, err = take(t.Context(), client, &pb.StreamRequest{N: 1_000_000})
			require.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err), "%s: %v", protocol, err)
			assert.GreaterOrEqual(t, len(ids), 64_000, protocol)
		})
	}
}

// The load in flight is limited, and large batches weigh more.
func TestTooManyIDsInFlightAreRefused(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		_, dial := serveInMemory(t, generator(t), &server.Options{MaxInFlight: 100, MaxPerClient: 100})
		conn := unreadStream(t, dial, &pb.StreamRequest{N: 10_000_000, Batch: 98_304}) // counts 97
		_, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		client := http1(t, dial)
		resp, text := get(t, client, inMemory+"/ids?n=4096")
		require.Equal(t, 429, resp.StatusCode, text)
		assert.Equal(t, "1", resp.Header.Get("Retry-After"), text)
		for protocol, c := range protocols(t, inMemory, dial) {
			_, err := c.Batch(t.Context(), &pb.BatchRequest{N: 4096})
			assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), protocol)
			_, err = c.Batch(t.Context(), &pb.BatchRequest{N: 2048})
			assert.NoError(t, err, protocol)
		}
		for n, want := range map[int]int{50: 200, 1000: 429} { // 1 and 20 KiB, of which the latter would count 13
			resp, text := request(t, client, http.MethodPost, inMemory+"/identify", strings.NewReader(strings.Repeat("1541815603606036480\n", n)))
			assert.Equal(t, want, resp.StatusCode, "%d IDs: %s", n, text)
		}
		resp, _ = get(t, client, inMemory+"/readyz")
		assert.Equal(t, 200, resp.StatusCode)
	})
}

// Idle connections use little memory, and do not prevent new ones.
func TestIdleConnectionsTakeLittleMemory(t *testing.T) {
	n := depth.Of(400, 10_000)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Cur < uint64(2*n+100) {
		t.Skipf("%d files may be open, and %d connections need two each", files.Cur, n)
	}
	_, url := serve(t, generator(t), nil)
	before := heap()
	for i := range n {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 { // half of them have sent a request
			fmt.Fprint(conn, "GET /id HTTP/1.1\r\nHost: x\r\n\r\n")
			if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	assert.LessOrEqual(t, (heap()-before)/int64(n), int64(64<<10))
	resp, _ := get(t, http.DefaultClient, url+"/id")
	assert.Equal(t, 200, resp.StatusCode, resp)
}
