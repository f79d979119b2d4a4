//go:build go1.25

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

// hosts maps hosts to servers. A host without a server refuses connections.
type hosts map[string]*counter

func (h hosts) Do(r *http.Request) (*http.Response, error) {
	if s := h[r.URL.Host]; s != nil {
		return s.Do(r)
	}
	return nil, errors.New("connection refused")
}

// refuse returns a function that makes a server refuse with a code.
func refuse(code connect.Code) func(int64) error {
	return func(int64) error { return connect.NewError(code, errors.New("refused")) }
}

// If a server refuses connections or calls, hangs or is unavailable, the client asks the next one
// at once, and stays with it.
func TestNextServerIsAskedAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		first *counter
		takes time.Duration
	}{
		"refuses":             {nil, 0},
		"unavailable":         {&counter{before: unavailable}, 0},
		"hangs":               {&counter{before: func(int64) error { time.Sleep(time.Minute); return nil }}, 2 * time.Second},
		"not found":           {&counter{before: refuse(connect.CodeNotFound)}, 0},
		"unimplemented":       {&counter{before: refuse(connect.CodeUnimplemented)}, 0},
		"forbidden":           {&counter{before: refuse(connect.CodePermissionDenied)}, 0},
		"unauthenticated":     {&counter{before: refuse(connect.CodeUnauthenticated)}, 0},
		"failed precondition": {&counter{before: refuse(connect.CodeFailedPrecondition)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := hosts{"a": test.first, "b": new(counter)}
				c, err := New("http://a", &Options{HTTPClient: all, Others: []string{"http://b"}, Timeout: 2 * time.Second, Batch: 10})
				require.NoError(t, err)
				begun := time.Now()
				for want := snowflake.ID(1); want <= 100; want++ {
					id, err := c.NextIDContext(t.Context())
					require.NoError(t, err)
					require.Equal(t, want, id)
				}
				assert.Equal(t, test.takes, time.Since(begun))
				synctest.Wait()
				all["a"], all["b"] = new(counter), nil
				time.Sleep(time.Minute)
				id, err := c.NextIDContext(t.Context())
				require.NoError(t, err)
				assert.EqualValues(t, 1, id)
				_ = c.Close()
				time.Sleep(time.Hour) // until the server has ended
			})
		})
	}
}

// A refusal counts only if the other servers refuse, too: this one is unavailable for three calls.
func TestUnavailableServerIsRetriedIfTheOtherRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &counter{before: func(call int64) error {
			if call <= 3 {
				return unavailable(call)
			}
			return nil
		}}
		all := hosts{"a": &counter{before: refuse(connect.CodeUnauthenticated)}, "b": away}
		c, err := New("http://a", &Options{HTTPClient: all, Others: []string{"http://b"}})
		require.NoError(t, err)
		id, err := c.NextIDContext(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, id)
		_ = c.Close()
	})
}

// If answers take longer than half of MaxAge, a client without calls stops fetching.
func TestSlowServerIsNotAskedWithoutCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counter{before: func(int64) error { time.Sleep(800 * time.Millisecond); return nil }}
		c := newClient(t, s, Options{MaxAge: time.Second})
		for range 3 {
			_, err := c.NextIDContext(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Hour)
			require.False(t, c.fetches())
		}
		assert.LessOrEqual(t, s.calls.Load(), int64(6))
		_ = c.Close()
	})
}

// A server that hangs is asked again after Timeout, even for the first answer, and while
// NextIDContext waits. An answer after MaxAge would be useless.
func TestRequestThatHangsIsRepeated(t *testing.T) {
	for most, o := range map[time.Duration]Options{2 * time.Second: {MaxWait: 3 * time.Second}, time.Second: {MaxAge: time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s := &counter{before: func(call int64) error {
				if call == 1 {
					time.Sleep(time.Hour)
				}
				return nil
			}}
			c := newClient(t, s, o)
			begun := time.Now()
			_, err := c.NextIDContext(t.Context())
			require.NoError(t, err)
			assert.LessOrEqual(t, time.Since(begun), most+2*minPause)
			_ = c.Close()
			time.Sleep(time.Hour)
		})
	}
}

// A caller that sometimes asks for an ID does not wait when a batch expires: the next batch has
// arrived.
func TestBatchIsReplacedBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counter{before: func(int64) error { time.Sleep(100 * time.Millisecond); return nil }}
		c := newClient(t, s, Options{MaxAge: 5 * time.Second})
		for i := range 60 {
			begun := time.Now()
			_, err := c.NextIDContext(t.Context())
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

// A permanent refusal is returned to each caller at once, without a pause after an earlier call.
func TestEachRefusalIsReturnedAtOnce(t *testing.T) {
	for _, code := range []connect.Code{connect.CodeUnauthenticated, connect.CodeInvalidArgument} {
		synctest.Test(t, func(t *testing.T) {
			for _, others := range [][]string{nil, {"http://other"}} {
				c := newClient(t, &counter{before: refuse(code)}, Options{Others: others})
				begun := time.Now()
				for range 10 {
					_, err := c.NextIDContext(t.Context())
					require.Equal(t, code, connect.CodeOf(err))
					require.Zero(t, time.Since(begun))
				}
				_ = c.Close()
			}
		})
	}
}

// A retry does not make a certificate trusted.
func TestUntrustedCertificateIsReturnedAtOnce(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	s.StartTLS()
	defer s.Close()
	c, err := New(s.URL, &Options{MaxWait: time.Minute})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.NextIDContext(t.Context())
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "certificate")
}
