//go:build unix

package serverbench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/sequencer"
	"github.com/seed-5394e6b1/snowflake/server/client"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// workers is the number of goroutines that load a server, each with one call at a time.
const workers = 8

// A call gets n IDs. Any number of goroutines may call it concurrently.
type call func(ctx context.Context, n int) error

// way is a way to get IDs. Its client is closed when the test ends.
type way struct {
	name string
	open func(t testing.TB, n int) call // for calls of n IDs
}

// one has the ways to get one ID, and many the ways to get a batch.
var (
	one = []way{
		{"http1", httpID}, {"connect-json", connectJSON}, {"grpc", grpcID}, {"buffer", buffer},
		{"redis", redisSequencer}, {"postgres", sequence(1)}, {"postgres,cache=100", sequence(100)},
	}
	many = []way{{"http1", httpIDs}, {"grpc", grpcIDs}, {"redis", redisSequencer}, {"postgres,increment", increments}}
)

// keepAlive returns a client with a connection for each goroutine.
func keepAlive(t testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * workers, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func httpID(t testing.TB, _ int) call { return get(t, "/id") }

func httpIDs(t testing.TB, n int) call { return get(t, fmt.Sprint("/ids?n=", n)) }

// get gets IDs, one a line.
func get(t testing.TB, path string) call {
	c, url := keepAlive(t), snowflaked(t).url()+path
	return func(ctx context.Context, n int) error {
		body, err := fetch(ctx, c, url)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(body) {
			if _, err := snowflake.ParseID(string(bytes.TrimSuffix(line, []byte("\n")))); err != nil {
				return err
			}
			n--
		}
		if n != 0 {
			return fmt.Errorf("%s: %d IDs are missing", path, n)
		}
		return nil
	}
}

// fetch returns the body of a response.
func fetch(ctx context.Context, c *http.Client, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/plain")
	answer, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	body := bytes.NewBuffer(make([]byte, 0, max(answer.ContentLength, 0)+bytes.MinRead))
	_, err = body.ReadFrom(answer.Body)
	return body.Bytes(), err
}

func connectJSON(t testing.TB, _ int) call {
	c := snowflakev1connect.NewSnowflakeServiceClient(keepAlive(t), snowflaked(t).url(), connect.WithProtoJSON())
	return func(ctx context.Context, _ int) error {
		_, err := c.NextID(ctx, &pb.NextIDRequest{})
		return err
	}
}

// dial returns one HTTP/2 connection, which all goroutines share.
func dial(t testing.TB) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///"+snowflaked(t).addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func grpcID(t testing.TB, _ int) call {
	conn := dial(t)
	return func(ctx context.Context, _ int) error {
		return conn.Invoke(ctx, snowflakev1connect.SnowflakeServiceNextIDProcedure, &pb.NextIDRequest{}, new(pb.NextIDResponse))
	}
}

func grpcIDs(t testing.TB, _ int) call {
	conn := dial(t)
	return func(ctx context.Context, n int) error {
		var out pb.BatchResponse
		err := conn.Invoke(ctx, snowflakev1connect.SnowflakeServiceBatchProcedure, &pb.BatchRequest{N: int64(n)}, &out)
		if err == nil && len(out.Ids) != n {
			err = fmt.Errorf("%d IDs came, not %d", len(out.Ids), n)
		}
		return err
	}
}

func buffer(t testing.TB, _ int) call {
	c, err := client.New(snowflaked(t).url(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return func(ctx context.Context, _ int) error {
		_, err := c.NextIDContext(ctx)
		return err
	}
}

func redisSequencer(t testing.TB, _ int) call {
	seq, err := sequencer.New(redisServer(t), nil)
	require.NoError(t, err)
	return func(ctx context.Context, n int) error {
		if n == 1 {
			_, err := seq.NextIDContext(ctx)
			return err
		}
		_, err := seq.Fill(ctx, make([]snowflake.ID, n))
		return err
	}
}

// sequence gets each number of a sequence separately. A connection of PostgreSQL caches some of
// them.
func sequence(cache int) func(t testing.TB, n int) call {
	return func(t testing.TB, _ int) call {
		return nextval(t, fmt.Sprint("cache", cache), fmt.Sprint("CACHE ", cache))
	}
}

// increments gets the first number of a block of n.
func increments(t testing.TB, n int) call {
	return nextval(t, fmt.Sprint("increment", n), fmt.Sprint("INCREMENT ", n))
}

// nextval gets n numbers with one statement, from a sequence with the increment n.
func nextval(t testing.TB, name, options string) call {
	pool := postgres(t)
	_, err := pool.Exec(context.Background(), "CREATE SEQUENCE IF NOT EXISTS "+name+" "+options)
	require.NoError(t, err)
	query := "SELECT nextval('" + name + "')"
	return func(ctx context.Context, n int) error {
		var first int64
		return pool.QueryRow(ctx, query).Scan(&first)
	}
}
