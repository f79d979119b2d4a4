package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
)

// maxBody bounds the bytes of a request, before and after decompression.
const maxBody = 64 << 10

// bounded bounds what is read of a request, and hides the addresses that errors of net have.
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

// slowError says that a request did not come to its end in time.
type slowError struct{}

func (slowError) Error() string { return "the request did not come in time" }

// Is lets connect give the error its code.
func (slowError) Is(target error) bool { return target == context.DeadlineExceeded }
