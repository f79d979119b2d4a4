package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
)

// Token is a bearer token and the quota of its client. A client sends the Secret in the header
// Authorization: Bearer SECRET.
type Token struct {
	Secret string // if empty, it matches no request
	Name   string // the client's, for logs, metrics and the quota; several tokens may share it

	// IDsPerSecond is the maximum rate of IDs of all clients with the Name. A call for more IDs
	// than are left is refused with resource_exhausted and Retry-After; a stream is slowed down. 0
	// means no limit.
	IDsPerSecond int

	// Burst is the maximum number of IDs at once, after a time without IDs. A call for more is
	// refused with invalid_argument. The default is IDsPerSecond.
	Burst int
}

// authorized refuses requests without a valid token. If tokens is nil, no token is needed.
func authorized(tokens func() []Token, next http.Handler) http.Handler {
	if tokens == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		valid := tokens()
		i := slices.IndexFunc(valid, func(want Token) bool { return same(got, want.Secret) })
		if !strings.EqualFold(scheme, "Bearer") || i < 0 {
			refuse(w, r, errToken)
			return
		}
		of(r.Context()).token = valid[i]
		next.ServeHTTP(w, r)
	})
}

// same reports whether two secrets are equal, in constant time. An empty one matches nothing.
func same(got, want string) bool {
	g, w := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(g[:], w[:]) == 1 && want != ""
}
