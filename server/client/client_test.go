//go:build go1.25

package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/server"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// Code that needs IDs can get them from a generator, a client or a Sequencer.
var _ = []interface {
	NextIDContext(context.Context) (snowflake.ID, error)
}{(*Client)(nil), (*snowflake.Generator)(nil)}

// counter is a server that counts up, with functions that are called for each call.
type counter struct {
	snowflakev1connect.UnimplementedSnowflakeServiceHandler
	last   atomic.Int64
	calls  atomic.Int64
	before func(call int64) error // may sleep
	after  func(call int64) error // an error loses the answer
}

func (s *counter) Batch(ctx context.Context, in *pb.BatchRequest) (*pb.BatchResponse, error) {
	call := s.calls.Add(1)
	if s.before != nil {
		if err := s.before(call); err != nil {
			return nil, err
		}
	}
	ids := make([]int64, in.N)
	last := s.last.Add(in.N)
	for i := range ids {
		ids[i] = last - in.N + int64(i) + 1
	}
	if s.after != nil {
		if err := s.after(call); err != nil {
			return nil, err
		}
	}
	return &pb.BatchResponse{Ids: ids, Nonce: in.Nonce}, ctx.Err()
}

// Do calls a handler without a network, so that time can be fake.
func (s *counter) Do(r *http.Request) (*http.Response, error) {
	_, h := snowflakev1connect.NewSnowflakeServiceHandler(s)
	answered := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		answered <- w.Result()
	}()
	select {
	case resp := <-answered:
		return resp, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func newClient(t testing.TB, s *counter, o Options) *Client {
	t.Helper()
	o.HTTPClient = s
	c := servertest.Must(New("http://counter", &o))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func unavailable(int64) error {
	return connect.NewError(connect.CodeUnavailable, errors.New("the lease is away"))
}

func (c *Client) fetches() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fetch != nil
}

// IDs increase in the order of calls, and batches are fetched ahead: only the first call waits.
func TestBatchesAreFetchedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counter{before: func(int64) error { time.Sleep(10 * time.Millisecond); return nil }}
		c := newClient(t, s, Options{Batch: 100})
		for want := snowflake.ID(1); want <= 1000; want++ {
			begun := time.Now()
			id := servertest.Must(c.NextIDContext(t.Context()))(t)
			require.Equal(t, want, id)
			if waited := time.Since(begun); want > 1 && waited > 0 {
				t.Fatalf("the call for ID %d waited %v", want, waited)
			}
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		assert.LessOrEqual(t, c.left(time.Now()), 150)
		assert.False(t, c.fetches())
		_ = c.Close()
	})
}

func TestOldIDsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counter{}
		c := newClient(t, s, Options{Batch: 10, MaxAge: time.Second})
		for _, step := range []struct {
			after time.Duration
			want  snowflake.ID
		}{{0, 1}, {time.Second, 2}, {time.Millisecond, 12}, {time.Hour, 22}} {
			time.Sleep(step.after)
			id, err := c.NextIDContext(t.Context())
			require.NoError(t, err, step.after)
			assert.Equal(t, step.want, id, step.after)
		}
		assert.EqualValues(t, 3, s.calls.Load(), "it sends requests without calls")
		_ = c.Close()
	})
}

type doer func(*http.Request) (*http.Response, error)

func (f doer) Do(r *http.Request) (*http.Response, error) { return f(r) }

// An ID's age counts from the request, however late the answer is.
func TestIDsOfALateAnswerAreNoOlderThanMaxAge(t *testing.T) {
	for _, late := range []time.Duration{900 * time.Millisecond, 8 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var issued []time.Time // of each batch
				s := &counter{after: func(int64) error { issued = append(issued, time.Now()); return nil }}
				network := doer(func(r *http.Request) (*http.Response, error) {
					resp, err := s.Do(r)
					if s.calls.Load() == 1 {
						time.Sleep(late)
					}
					return resp, err
				})
				c := servertest.Must(New("http://late", &Options{HTTPClient: network, Batch: 10, MaxAge: time.Second, Timeout: 10 * time.Second}))(t)
				for range 10 {
					id := servertest.Must(c.NextIDContext(t.Context()))(t)
					synctest.Wait()
					require.LessOrEqual(t, time.Since(issued[(id-1)/10]), time.Second, "the ID is %d", id)
					time.Sleep(300 * time.Millisecond)
				}
				_ = c.Close()
			})
		})
	}
}

// In a suspended machine the monotonic clock may stop. The wall clock may be set back.
func TestAgeCountsByTheFasterClock(t *testing.T) {
	for name, back := range map[string]struct{ monotonic, wall time.Duration }{
		"suspended": {0, time.Hour}, "set back": {time.Hour, -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, &counter{}, Options{Batch: 10})
				servertest.Must(c.NextIDContext(t.Context()))(t)
				synctest.Wait()
				last := c.last.Load()
				last.asked, last.wall = last.asked.Add(-back.monotonic), last.wall.Add(-back.wall)
				id := servertest.Must(c.NextIDContext(t.Context()))(t)
				assert.Greater(t, id, snowflake.ID(10))
				_ = c.Close()
			})
		})
	}
}

// Any number of waiting callers get IDs in order of arrival.
func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counter{before: func(int64) error { time.Sleep(time.Second); return nil }}
		c := newClient(t, s, Options{Batch: 7})
		var all sync.WaitGroup
		for want := snowflake.ID(1); want <= 500; want++ {
			all.Go(func() {
				id, err := c.NextIDContext(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, want, id)
			})
			synctest.Wait()
		}
		all.Wait()
		_ = c.Close()
	})
}

// In an outage each caller gets the server's error when its own context ends. While IDs are left,
// there are few requests.
func TestCallsReturnServersErrorDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counter{before: unavailable}
		c := newClient(t, s, Options{MaxWait: 20 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		for _, test := range []struct {
			ctx  context.Context
			want time.Duration
		}{{ctx, 3 * time.Second}, {t.Context(), 20 * time.Second}} {
			begun := time.Now()
			id, err := c.NextIDContext(test.ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded, id)
			require.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), id)
			assert.ErrorContains(t, err, "the lease is away", id)
			assert.Equal(t, test.want, time.Since(begun))
		}
		assert.LessOrEqual(t, s.calls.Load(), int64(60))
		time.Sleep(time.Hour)
		assert.False(t, c.fetches(), "it fetches without calls")
		s.before = nil
		id := servertest.Must(c.NextIDContext(t.Context()))(t)
		assert.EqualValues(t, 1, id)
		_ = c.Close()
	})
}

func TestCloseEndsAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counter{before: func(int64) error { time.Sleep(time.Hour); return nil }}
		c := newClient(t, s, Options{Timeout: 2 * time.Hour, MaxWait: 3 * time.Hour})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				id, err := c.NextIDContext(t.Context())
				assert.ErrorIs(t, err, ErrClosed, id)
			})
		}
		synctest.Wait()
		begun := time.Now()
		assert.NoError(t, c.Close())
		assert.Zero(t, time.Since(begun))
		all.Wait()
		id, err := c.NextIDContext(t.Context())
		assert.ErrorIs(t, err, ErrClosed, id)
		time.Sleep(time.Hour) // until the server has ended
	})
}

// If answers are lost, late and refused, and callers give up, no ID repeats, and callers that wait
// long enough get one.
func TestClientReturnsNoIDTwice(t *testing.T) {
	for seed := range depth.Of[uint64](2, 20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			chance := func(n int) int { mu.Lock(); defer mu.Unlock(); return random.IntN(n) }
			fault := func(call int64) error {
				if chance(4) == 0 {
					return unavailable(call)
				}
				time.Sleep(time.Duration(chance(150)) * time.Millisecond)
				return nil
			}
			s := &counter{before: fault, after: fault}
			c := newClient(t, s, Options{Batch: 20, Timeout: 200 * time.Millisecond, MaxAge: 300 * time.Millisecond, MaxWait: time.Hour})
			seen := map[snowflake.ID]bool{}
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					for range 50 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*chance(100))*time.Millisecond)
						if i%2 == 0 {
							ctx = t.Context()
						}
						id, err := c.NextIDContext(ctx)
						cancel()
						mu.Lock()
						if err == nil && (seen[id] || id == 0) || err != nil && i%2 == 0 {
							t.Errorf("seed %d: %d, %v", seed, id, err)
						}
						seen[id] = err == nil
						mu.Unlock()
						time.Sleep(time.Duration(chance(20)) * time.Millisecond)
					}
				})
			}
			all.Wait()
			_ = c.Close()
			time.Sleep(time.Second) // until the server has ended
		})
	}
}

func TestWrongAnswersAreRefused(t *testing.T) {
	for _, ids := range [][]int64{{}, {1}, {1, 1}, {2, 1}, {-1, 2}, {1, 2, 3}} {
		assert.Error(t, check(ids, 2), ids)
	}
	assert.NoError(t, check([]int64{0, 1}, 2))
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"Batch": {Batch: -1}, "Batch 50001": {Batch: mostBatch + 1},
		"MaxAge": {MaxAge: -1}, "Timeout": {Timeout: -1}, "MaxWait": {MaxWait: -1},
		"Timeout 15s": {Timeout: 15 * time.Second}, "URL 2": {Others: []string{"nothing"}},
	} {
		_, err := New("http://x", &o)
		require.ErrorIs(t, err, snowflake.ErrInvalidOptions)
		assert.ErrorContains(t, err, name)
	}
	for _, url := range []string{"", "127.0.0.1:8080", "localhost:8080", "ftp://x", "http://", "http://a b"} {
		_, err := New(url, nil)
		require.ErrorIs(t, err, snowflake.ErrInvalidOptions, "%q", url)
		assert.ErrorContains(t, err, "URL", "%q", url)
	}
}

// realServer returns the URL of a server of IDs.
func realServer(t testing.TB, o *server.Options) string {
	gen := servertest.Must(snowflake.New(1, &snowflake.Options{Clock: snowflake.SystemClock()}))(t)
	s := servertest.Must(server.New(gen, o))(t)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL
}

// repeater is a proxy that caches answers, and repeats one for every second request.
type repeater struct {
	counter
	mu   sync.Mutex
	kept [][]byte
}

func (p *repeater) Do(r *http.Request) (*http.Response, error) {
	resp, err := p.counter.Do(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = append(p.kept, body)
	if n := len(p.kept); n%2 == 0 {
		body = p.kept[n/2-1]
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, err
}

// A client discards answers that a proxy repeats, to the same client or to another, and sends
// another request.
func TestRepeatedAnswersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proxy := &repeater{}
		seen := map[snowflake.ID]bool{}
		for range 2 {
			c := servertest.Must(New("http://proxy", &Options{HTTPClient: proxy, Batch: 5}))(t)
			for range 50 {
				id := servertest.Must(c.NextIDContext(t.Context()))(t)
				assert.False(t, seen[id], "%d came before", id)
				seen[id] = true
			}
			_ = c.Close()
		}
	})
}

// A server may allow fewer IDs in a request than Batch and the waiting calls need together.
func TestServerWithALowerLimit(t *testing.T) {
	for name, o := range map[string]server.Options{
		"of the server": {MaxIDs: 10},
		"of the token":  {Tokens: func() []server.Token { return []server.Token{{Secret: "a", IDsPerSecond: 1000, Burst: 10}} }},
	} {
		for _, batch := range []int{0, 10, 20} {
			c := servertest.Must(New(realServer(t, &o), &Options{Batch: batch, Token: func() string { return "a" }}))(t)
			defer c.Close()
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					_, err := c.NextIDContext(t.Context())
					assert.NoError(t, err, "the limit is %s, and Batch %d", name, batch)
				})
			}
			all.Wait()
		}
	}
}

// answers calls a server without a network, so that time can be fake.
type answers struct {
	http.Handler
	sizes []int // the number of IDs in each answer
}

func (a *answers) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	var out pb.BatchResponse
	if w.Code == http.StatusOK {
		if err := proto.Unmarshal(w.Body.Bytes(), &out); err != nil {
			return nil, err
		}
	}
	a.sizes = append(a.sizes, len(out.Ids))
	return w.Result(), nil
}

// If the token's burst is smaller than Batch, a client asks for a burst at a time, and not for more
// than it needs. After the burst is raised, it asks for Batch within a minute.
func TestClientFollowsItsQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The fake time begins in 2000, before the default epoch.
		gen := servertest.Must(snowflake.New(1, &snowflake.Options{Layout: layouts.Redis(), Clock: snowflake.SystemClock()}))(t)
		burst := 50
		s := servertest.Must(server.New(gen, &server.Options{Tokens: func() []server.Token {
			return []server.Token{{Secret: "a", Name: "web", IDsPerSecond: burst}}
		}}))(t)
		a := &answers{Handler: s}
		c := servertest.Must(New("http://ids", &Options{HTTPClient: a, Token: func() string { return "a" }}))(t)
		next := func(calls int) {
			for range calls {
				servertest.Must(c.NextIDContext(t.Context()))(t)
				time.Sleep(time.Second)
			}
		}
		next(30)
		assert.Equal(t, []int{0, 50, 50}, a.sizes[:3])
		assert.NotContains(t, a.sizes[1:], 0, "a call was refused: the client asked for too much, or too often")
		assert.LessOrEqual(t, len(a.sizes), 1+30/2, "a batch is fetched when the IDs before are older than half of MaxAge")
		burst = 5000
		next(60)
		assert.Contains(t, a.sizes, 1000)
		_ = c.Close()
	})
}

func TestManyCallersOfARealServer(t *testing.T) {
	url := realServer(t, &server.Options{Tokens: func() []server.Token { return []server.Token{{Secret: "old"}, {Secret: "new"}} }})
	var calls atomic.Int64
	token := func() string { return []string{"old", "new"}[calls.Add(1)%2] }
	c := servertest.Must(New(url, &Options{Token: token}))(t)
	defer c.Close()
	var all sync.WaitGroup
	lists := make([][]snowflake.ID, 16)
	for i := range lists {
		all.Go(func() {
			for range 2000 {
				id, err := c.NextIDContext(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				lists[i] = append(lists[i], id)
			}
		})
	}
	all.Wait()
	seen := map[snowflake.ID]bool{}
	for _, list := range lists {
		for i, id := range list {
			if seen[id] || i > 0 && id <= list[i-1] {
				t.Fatal(id)
			}
			seen[id] = true
		}
	}
}
