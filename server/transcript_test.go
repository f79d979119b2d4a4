//go:build go1.25

package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server"
	"github.com/seed-5394e6b1/snowflake/server/page"
)

var update = flag.Bool("update", false, "rewrite testdata/http.txt")

// servers are the servers of the transcript.
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

// testdata/http.txt has what clients of HTTP send, in lines that begin with >, and get. It is
// rewritten with -update: review the diff.
func TestTranscript(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		const file = "testdata/http.txt"
		script, err := os.ReadFile(file)
		require.NoError(t, err)
		var s http.Handler
		var now bytes.Buffer
		for part := range strings.SplitSeq(string(script), "\n\n") {
			lines := strings.Split(strings.TrimSpace(part), "\n")
			if name, ok := strings.CutPrefix(lines[0], "# "); ok {
				name, _, _ = strings.Cut(name, ":")
				s = transcriptServer(t, name)
				fmt.Fprintf(&now, "%s\n\n", strings.Join(lines, "\n"))
				continue
			}
			var sent []string
			for _, line := range lines {
				if text, ok := strings.CutPrefix(line, ">"); ok {
					fmt.Fprintln(&now, line)
					sent = append(sent, strings.TrimPrefix(text, " "))
				}
			}
			fmt.Fprintf(&now, "%s\n\n", exchange(s, sent))
		}
		if got := strings.TrimRight(now.String(), "\n") + "\n"; *update {
			require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		} else {
			assert.Equal(t, string(script), got)
		}
	})
}

// exchange returns the answer to a request, as the transcript shows it.
func exchange(s http.Handler, sent []string) string {
	end := len(sent)
	if i := slices.Index(sent, ""); i > 0 {
		end = i
	}
	method, target, _ := strings.Cut(sent[0], " ")
	r := httptest.NewRequest(method, target, strings.NewReader(strings.Join(sent[min(end+1, len(sent)):], "\n")))
	r.Host = "localhost"
	for _, header := range sent[1:end] {
		name, value, _ := strings.Cut(header, ": ")
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
	return strings.TrimSuffix(out, ";") + "\n" + strings.ReplaceAll(fmt.Sprintf("%.300s", strings.TrimSpace(w.Body.String())), "\n\n", "\n")
}
