//go:build unix && go1.25

package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// If the open connections are half-open, and new ones work, the client gets IDs after one request
// has timed out.
func TestConnectionThatIsHalfOpenIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		http2, pings bool
		timeout      time.Duration
	}{
		"HTTP/1.1":            {timeout: time.Second},
		"HTTP/2":              {http2: true, timeout: time.Second},
		"HTTP/2, by its PING": {http2: true, pings: true, timeout: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ids := snowflakev1connect.NewSnowflakeServiceHandler(new(counter))
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, test.http2, r.ProtoMajor == 2, r.Proto)
				ids.ServeHTTP(w, r)
			}))
			s.EnableHTTP2 = test.http2
			s.StartTLS()
			t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
			proxy := servertest.NewProxy(t, s.Listener.Addr().String())
			o := servertest.Must((&Options{Timeout: test.timeout, MaxWait: 20 * time.Minute, MaxAge: 10 * time.Minute}).withDefaults())(t)
			transport := o.HTTPClient.(*http.Client).Transport.(*http.Transport)
			transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
			if !test.pings {
				transport.HTTP2 = nil
			}
			o.Batch = 1
			c := servertest.Must(New("https://"+proxy.Addr(), &o))(t)
			defer c.Close()
			next := func() {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				servertest.Must(c.NextIDContext(ctx))(t)
			}
			for range 10 { // so that connections are open
				next()
			}
			proxy.Swallow()
			for range 10 {
				next()
			}
		})
	}
}
