//go:build unix

package k8slease_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatal("it never comes to pass: " + what)
		}
	}
}

// The server dies after it gets a renewal's request, and before it answers.
func TestHolderContinuesAfterServerRestartsDuringARenewal(t *testing.T) {
	depth.NeedFull(t, "a server that is killed")
	t.Parallel()
	c := &cluster{start(t)}
	_, prefix, _ := c.fresh(t)
	var armed atomic.Bool
	died := make(chan struct{})
	s := c.through(t, prefix, func(rt http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPut && armed.Swap(false) {
				c.Pause()
				time.AfterFunc(50*time.Millisecond, func() { c.Kill(); close(died) }) // the request is on its way
			}
			return rt.RoundTrip(req)
		})
	})
	l, err := lease.Acquire(t.Context(), s, &lease.Options{Window: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release(t.Context())
	armed.Store(true)
	<-died
	eventually(t, "the renewal fails", func() bool { return l.Stats().Failures > 0 })
	c.Restart()
	renewals, worker := l.Stats().Renewals, l.Worker()
	eventually(t, "it renews again", func() bool { return l.Stats().Renewals > renewals })
	if stats := l.Stats(); stats.Replacements > 0 || l.Worker() != worker {
		t.Errorf("it has lost its worker ID: %+v", stats)
	}
}

// If the API server loses all its data, the holder issues IDs until its window ends, and nobody gets a worker
// ID. Create makes a new store after two windows.
func TestHolderContinuesAfterEtcdIsWiped(t *testing.T) {
	depth.NeedFull(t, "a server that is killed")
	t.Parallel()
	c := &cluster{start(t)}
	s, prefix, _ := c.fresh(t)
	l, err := lease.Acquire(t.Context(), s, &lease.Options{Window: window})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release(t.Context())
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		t.Fatal(err)
	}
	before, err := gen.NextID()
	if err != nil {
		t.Fatal(err)
	}
	c.Wipe(t)
	_, err = lease.Acquire(t.Context(), opened(t, c.Addr, in(prefix)), nil)
	refused(t, err, lease.ErrWiped, "lease default/"+prefix, "see Store.Create")
	eventually(t, "the holder notices", func() bool { return l.Stats().LastError != nil })
	refused(t, l.Stats().LastError, lease.ErrWiped)
	eventually(t, "the namespace is back", func() bool {
		namespace(t, c.Addr, "default")
		return opened(t, c.Addr, in(prefix)).Create(t.Context(), window) == nil
	})
	var after snowflake.ID
	eventually(t, "IDs are issued again", func() bool { after, err = gen.NextID(); return err == nil })
	if after <= before {
		t.Errorf("%v comes after %v", after, before)
	}
}

// An API server whose etcd has no leader says 500, and one that ends says 503. A process that starts then
// tries again; a holder is told why it cannot renew.
func failingServer(t *testing.T, c *cluster) {
	_, prefix, _ := c.fresh(t)
	var left atomic.Int64
	var code int
	s := c.through(t, prefix, func(rt http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if left.Add(-1) < 0 {
				return rt.RoundTrip(req)
			}
			if req.Body != nil {
				req.Body.Close()
			}
			return &http.Response{
				StatusCode: code, Header: http.Header{"Content-Type": {"text/plain"}},
				Body: io.NopCloser(strings.NewReader("etcdserver: no leader")), Request: req,
			}, nil
		})
	})
	for _, code = range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		left.Store(1)
		_, err := s.Load(t.Context())
		refused(t, err, lease.ErrAway, "lease default/"+prefix)
		left.Store(2)
		l, err := lease.Acquire(t.Context(), s, &lease.Options{Window: window})
		if err != nil {
			t.Fatal(code, err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(code, err)
		}
	}
}
