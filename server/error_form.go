package server

import (
	"net/http"

	"connectrpc.com/connect"
)

// inOneForm converts the errors of net/http, connect and Home to the form of the server's errors.
func inOneForm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&former{ResponseWriter: w, r: r}, r)
	})
}

type former struct {
	http.ResponseWriter
	r        *http.Request
	replaced bool // the body of an error was replaced
}

func (f *former) WriteHeader(status int) {
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
func (f *former) foreign(status int) failure {
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

func (f *former) Write(b []byte) (int, error) {
	if f.replaced {
		return len(b), nil
	}
	return f.ResponseWriter.Write(b)
}

// Flush is for streams.
func (f *former) Flush() { _ = http.NewResponseController(f.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (f *former) Unwrap() http.ResponseWriter { return f.ResponseWriter }
