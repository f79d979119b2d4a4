package server

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"
)

// calledBy refuses requests with a Host that is neither local nor in names. If names is nil, all
// are allowed.
func calledBy(names []string, next http.Handler) http.Handler {
	if names == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) && !slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, nameOf(r.Host)) }) {
			refused(http.StatusMisdirectedRequest, connect.CodePermissionDenied,
				"the server is not called %.100q: use localhost, or add the name to the server's hosts", r.Host).write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether only this computer has the name or address.
func isLocal(host string) bool {
	name := nameOf(host)
	return host == "" || strings.EqualFold(name, "localhost") || net.ParseIP(name).IsLoopback()
}

// nameOf returns a host without its port, and without the trailing dot of a fully qualified name.
func nameOf(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return strings.TrimSuffix(name, ".")
}
