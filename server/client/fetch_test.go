package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

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
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				for want := snowflake.ID(1); want <= 100; want++ {
					if id, err := c.NextID(t.Context()); err != nil || id != want {
						t.Fatal(id, err)
					}
				}
				if took := time.Since(begun); took != test.takes {
					t.Errorf("it took %v, not %v", took, test.takes)
				}
				all["a"], all["b"] = new(counter), nil
				time.Sleep(time.Minute)
				if id, err := c.NextID(t.Context()); err != nil || id != 1 {
					t.Errorf("it does not return to the first: %d, %v", id, err)
				}
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
		if _, err := c.NextID(t.Context()); err != nil || time.Since(begun) > 2*time.Second {
			t.Error(err, time.Since(begun))
		}
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
			if _, err := c.NextID(t.Context()); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(begun); i > 0 && waited > 0 {
				t.Errorf("call %d waited %v", i, waited)
			}
			time.Sleep(time.Second)
		}
		if calls := s.calls.Load(); calls > 25 {
			t.Errorf("%d calls in a minute", calls)
		}
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
				if _, err := c.NextID(t.Context()); connect.CodeOf(err) != code || time.Since(begun) > most {
					t.Fatal(err, time.Since(begun))
				}
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
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.NextID(t.Context()); err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}
