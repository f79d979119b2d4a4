package server

import (
	"net/http"

	"connectrpc.com/connect"
)

// rewriteErrors converts the errors of net/http, connect and Home to the form of the server's errors.
func rewriteErrors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&errorRewriter{ResponseWriter: w, r: r}, r)
	})
}

// errorRewriter is a ResponseWriter with the body of an error replaced.
type errorRewriter struct {
	http.ResponseWriter
	r        *http.Request
	replaced bool // the body of an error was replaced
}

func (f *errorRewriter) WriteHeader(status int) {
	e := f.foreign(status)
	if e.status == 0 || f.replaced {
		f.ResponseWriter.WriteHeader(status)
		return
	}
	f.replaced = true
	f.Header().Del("Content-Length")
	e.write(f.ResponseWriter, f.r)
}

// foreign returns the failure for a status that this package does not use itself, or the zero
// failure.
func (f *errorRewriter) foreign(status int) failure {
	switch status {
	case http.StatusNotFound:
		return refused(status, connect.CodeNotFound, "there is no %.100q here", f.r.URL.Path)
	case http.StatusMethodNotAllowed:
		return refused(status, connect.CodeUnimplemented, "the method is %.16s: want %s", f.r.Method, f.Header().Get("Allow"))
	case http.StatusUnsupportedMediaType:
		return refused(status, connect.CodeInvalidArgument, "the Content-Type %.100q is not one of %s",
			f.r.Header.Get("Content-Type"), f.Header().Get("Accept-Post"))
	case http.StatusHTTPVersionNotSupported:
		return refused(status, connect.CodeUnimplemented, "the method needs HTTP/2")
	case http.StatusTooManyRequests:
		if f.Header().Get("Retry-After") == "" { // connect refuses a message because of its size
			return refused(http.StatusRequestEntityTooLarge, connect.CodeInvalidArgument, "the request has over %d bytes", maxBody)
		}
	}
	return failure{}
}

func (f *errorRewriter) Write(b []byte) (int, error) {
	if f.replaced {
		return len(b), nil
	}
	return f.ResponseWriter.Write(b)
}

// Flush is for streams.
func (f *errorRewriter) Flush() { _ = http.NewResponseController(f.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (f *errorRewriter) Unwrap() http.ResponseWriter { return f.ResponseWriter }
