package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Errors of other packages get the server's form, and all other answers are unchanged.
func TestForeignErrorsGetOneForm(t *testing.T) {
	for status, want := range map[int]problem{
		200: {}, 304: {}, 400: {}, 403: {}, 500: {},
		404: {Code: "not_found", Message: `there is no "/path" here`},
		405: {Code: "unimplemented", Message: "the method is PUT: want GET"},
		505: {Code: "unimplemented", Message: "the method needs HTTP/2"},
		413: {Code: "invalid_argument", Message: "the request has over 65536 bytes"},
		415: {Code: "invalid_argument", Message: `the Content-Type "text/html" is not one of text/plain`},
	} {
		r := httptest.NewRequest(http.MethodPut, "/path", nil)
		r.Header.Set("Content-Type", "text/html")
		w := httptest.NewRecorder()
		rewriteErrors(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", "GET")
			w.Header().Set("Accept-Post", "text/plain")
			w.Header().Set("Content-Length", "7")
			if status == 413 {
				w.WriteHeader(http.StatusTooManyRequests) // as connect does if a message is too large
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte("foreign"))
		})).ServeHTTP(w, r)
		assert.Equal(t, status, w.Code)
		if want.Code == "" {
			assert.Equal(t, "foreign", w.Body.String(), status)
			continue
		}
		var got problem
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got), "%d: %s", status, w.Body)
		assert.Equal(t, want, got, status)
		assert.Empty(t, w.Header().Get("Content-Length"), status)
	}
	w := httptest.NewRecorder()
	rewriteErrors(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { refuse(w, r, errBusy) })).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/path", nil))
	assert.Equal(t, http.StatusTooManyRequests, w.Code, "a refusal of the server's own")
}
