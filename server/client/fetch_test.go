package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// hosts lets each host answer as a server of its own. A host without a server refuses connections.
type hosts map[string]*counter

func (h hosts) Do(r *http.Request) (*http.Response, error) {
	if s := h[r.URL.Host]; s != nil {
		return s.Do(r)
	}
	return nil, errors.New("connection refused")
}

// If a server refuses connections, hangs or is unavailable, the next one is asked at once, and stays the one that is asked.
func TestNextServerIsAskedAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		first *counter
		takes time.Duration
	}{
		"refuses":     {nil, 0},
		"unavailable": {&counter{before: unavailable}, 0},
		"hangs":       {&counter{before: func(int64) error { time.Sleep(time.Minute); return nil }}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := hosts{"a": test.first, "b": new(counter)}
				c, err := New("http://a", &Options{HTTPClient: all, Others: []string{"http://b"}, Timeout: 2 * time.Second, Batch: 10})
				require.NoError(t, err)
				begun := time.Now()
				for want := snowflake.ID(1); want <= 100; want++ {
					id, err := c.NextID(t.Context())
					require.NoError(t, err)
					require.Equal(t, want, id)
				}
				assert.Equal(t, test.takes, time.Since(begun))
				all["a"], all["b"] = new(counter), nil
				time.Sleep(time.Minute)
				id, err := c.NextID(t.Context())
				require.NoError(t, err)
				assert.EqualValues(t, 1, id)
				_ = c.Close()
				time.Sleep(time.Hour) // until the server has ended
			})
		})
	}
}

// A server that hangs is asked again after Timeout, also for the first answer, and within the time that NextID waits.
func TestHangingAnswerIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counter{before: func(call int64) error {
			if call == 1 {
				time.Sleep(time.Hour)
			}
			return nil
		}}
		c := newClient(t, s, Options{MaxWait: 3 * time.Second})
		begun := time.Now()
		_, err := c.NextID(t.Context())
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(begun), 2*time.Second)
		_ = c.Close()
		time.Sleep(time.Hour)
	})
}

// A caller that asks now and then does not wait when a batch expires: the next batch came before.
func TestBatchIsReplacedBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counter{before: func(int64) error { time.Sleep(100 * time.Millisecond); return nil }}
		c := newClient(t, s, Options{MaxAge: 5 * time.Second})
		for i := range 60 {
			begun := time.Now()
			_, err := c.NextID(t.Context())
			require.NoError(t, err)
			if waited := time.Since(begun); i > 0 && waited > 0 {
				t.Errorf("call %d waited %v", i, waited)
			}
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, s.calls.Load(), int64(25))
		_ = c.Close()
	})
}

// A refusal that no repetition mends is returned at once to each caller, not after the pause of the caller before. If the server
// may have refused the number of IDs, the client asks for Batch once more, after one pause.
func TestEachRefusalIsReturnedAtOnce(t *testing.T) {
	for code, most := range map[connect.Code]time.Duration{connect.CodeUnauthenticated: 0, connect.CodeInvalidArgument: 2 * minPause} {
		synctest.Test(t, func(t *testing.T) {
			s := &counter{before: func(int64) error { return connect.NewError(code, errors.New("refused")) }}
			c := newClient(t, s, Options{})
			begun := time.Now()
			for range 10 {
				_, err := c.NextID(t.Context())
				require.Equal(t, code, connect.CodeOf(err))
				require.LessOrEqual(t, time.Since(begun), most)
			}
			_ = c.Close()
		})
	}
}

// A certificate that nobody vouches for stays so.
func TestUntrustedCertificateIsReturnedAtOnce(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	s.StartTLS()
	defer s.Close()
	c, err := New(s.URL, &Options{MaxWait: time.Minute})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.NextID(t.Context())
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "certificate")
}
