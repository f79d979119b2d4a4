//go:build go1.25

package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/transcript"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server"
	"github.com/seed-5394e6b1/snowflake/server/page"
)

// servers returns the servers of the transcript.
var servers = map[string]server.Options{
	"plain": {},
	"home":  {Home: page.Handler(snowflake.DefaultLayout(), nil)},
	"tokens": {Tokens: func() []server.Token {
		return []server.Token{{Secret: "one"}, {Secret: "two", Name: "web", IDsPerSecond: 20}}
	}},
	"hosts":       {Hosts: []string{"ids.internal"}},
	"waiting":     {WaitsFor: func() string { return "the store has no entries" }},
	"unavailable": {},
	"held":        {Watermark: heldBack},
	"away":        {Watermark: func(context.Context) (lease.Mark, error) { return lease.Mark{}, errors.New("host=db.internal") }},
	"drained":     {},
	"admin":       {Tokens: func() []server.Token { return []server.Token{{Secret: "one"}} }},
}

func transcriptServer(t *testing.T, name string) http.Handler {
	t.Helper()
	o, ok := servers[name]
	require.True(t, ok, name)
	o.Logger = slog.New(slog.DiscardHandler)
	gen := generator(t)
	switch name {
	case "waiting":
		gen = nil
	case "unavailable":
		gen = brokenLease(t, func(context.Context) error { return errors.New("host=db.internal") })
	}
	s := newServer(t, gen, &o)
	switch name {
	case "drained":
		s.Drain()
	case "admin":
		return s.Admin()
	}
	return s
}

// In testdata/http.txt, a command consists of a server, a method and a target. Its standard input
// has the headers and, after an empty line, the body.
func TestTranscript(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		started := map[string]http.Handler{}
		transcript.RunFile(t, "testdata/http.txt", "http", func(in io.Reader, args ...string) (string, string, int) {
			name, method, target := args[0], args[1], args[2]
			if started[name] == nil {
				started[name] = transcriptServer(t, name)
			}
			return exchange(t, started[name], method, target, in), "", 0
		})
	})
}

// exchange returns the response to a request, in the form of the transcript.
func exchange(t *testing.T, s http.Handler, method, target string, in io.Reader) string {
	sent, err := io.ReadAll(in)
	require.NoError(t, err)
	headers, body, _ := strings.Cut("\n"+string(sent), "\n\n")
	r := httptest.NewRequest(method, target, strings.NewReader(strings.TrimSuffix(body, "\n")))
	r.Host = "localhost"
	for header := range strings.Lines(strings.TrimPrefix(headers, "\n")) {
		name, value, _ := strings.Cut(strings.TrimSpace(header), ": ")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	w := answer(s, r)
	out := fmt.Sprint(w.Code)
	for _, name := range []string{"Content-Type", "Allow", "Retry-After", "Www-Authenticate", "Connection"} {
		if value := w.Header().Get(name); value != "" {
			out += fmt.Sprintf(" %s: %s;", name, value)
		}
	}
	var compact bytes.Buffer
	if json.Compact(&compact, w.Body.Bytes()) == nil { // protobuf's JSON has spaces at random
		w.Body = &compact
	}
	return strings.TrimSuffix(out, ";") + "\n" + fmt.Sprintf("%.300s", strings.TrimSpace(w.Body.String())) + "\n"
}
