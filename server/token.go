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
	Secret string // an empty one matches no request
	Name   string // of the client, for log, metrics and its quota; tokens may have the same name

	// IDsPerSecond bounds the IDs of all clients of the name together. A call that asks for more
	// than are left is refused with resource_exhausted, and Retry-After says when to repeat it; a
	// stream is slowed down. If it is 0, there is no limit.
	IDsPerSecond int

	// Burst bounds the IDs that are issued at once, after a time without IDs. A call that asks for
	// more is refused with invalid_argument. The default is IDsPerSecond, which is one second's
	// IDs.
	Burst int
}

// authorized refuses requests without a valid token. If tokens is nil, none is needed.
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

// same compares in constant time. An empty secret matches nothing.
func same(got, want string) bool {
	g, w := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(g[:], w[:]) == 1 && want != ""
}
