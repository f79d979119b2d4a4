package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A client that reads answers slowly uses up only its own share.
func TestOneClientLeavesRoomForOthers(t *testing.T) {
	for _, c := range []struct{ slow, same, other string }{
		{"192.0.2.1:4000", "[::ffff:192.0.2.1]:5000", "192.0.2.2:4000"},
		// Two addresses of one network, and one of another.
		{"[2001:db8::1]:4000", "[2001:db8::ffff]:4000", "[2001:db8:0:1::1]:4000"},
	} {
		l := load{max: 6, share: 4, of: map[string]int64{}}
		ask := func(addr string, inHandler func(*room)) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = addr
			r = r.WithContext(context.WithValue(r.Context(), callKey{}, new(call)))
			w := httptest.NewRecorder()
			l.limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { inHandler(&of(r.Context()).room) })).ServeHTTP(w, r)
			return w
		}
		ask(c.slow, func(slow *room) {
			assert.NoError(t, slow.take(2))
			ask(c.same, func(same *room) {
				assert.ErrorIs(t, same.take(1), errShare)
				w := ask(c.slow, nil)
				assert.Equal(t, http.StatusTooManyRequests, w.Code, "the slow client has more than its share")
				assert.Contains(t, w.Body.String(), "of yours")
				w = ask(c.other, func(other *room) {
					assert.NoError(t, other.take(1), "another client is starved")
					assert.ErrorIs(t, other.take(1), errBusy)
				})
				assert.Equal(t, http.StatusOK, w.Code, "another client is starved")
			})
		})
		assert.Zero(t, l.now)
		assert.Empty(t, l.of)
	}
}
