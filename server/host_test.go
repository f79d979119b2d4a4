package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A page of another site whose name resolves to the loopback interface is refused.
func TestOtherHostNamesAreRefused(t *testing.T) {
	h := calledBy([]string{"ids.internal"}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"localhost": 200, "LocalHost:8080": 200, "localhost.": 200, "localhost.:8080": 200,
		"ids.internal.": 200, "evil.example.": 421, ".": 421, "127.0.0.1:8080": 200, "127.0.0.2": 200,
		"[::1]:8080": 200, "[::1]": 200, "ids.internal:80": 200, "": 200,
		"evil.example": 421, "evil.example:8080": 421, "localhost.evil.example": 421, "10.0.0.1": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/id", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, host)
	}
}
