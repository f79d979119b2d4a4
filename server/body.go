package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
)

// maxBody is the maximum size of a request in bytes, before and after decompression.
const maxBody = 64 << 10

// bounded limits the size of requests, and replaces errors of net, which have addresses.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			in := *r
			in.Body = body{http.MaxBytesReader(w, r.Body, maxBody)}
			r = &in
		}
		next.ServeHTTP(w, r)
	})
}

type body struct{ io.ReadCloser }

func (b body) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = slowError{}
	}
	return n, err
}

// slowError is the error of a request that did not arrive in time.
type slowError struct{}

func (slowError) Error() string { return "the request did not arrive in time" }

// Is makes connect return the code deadline_exceeded.
func (slowError) Is(target error) bool { return target == context.DeadlineExceeded }
