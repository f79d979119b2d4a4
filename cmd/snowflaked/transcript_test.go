//go:build unix && go1.25

package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/transcript"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// What depends on the time, the host and the process.
var unstable = []struct{ is, shown string }{
	{`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`, "TIME"},
	{`(?m)^worker +state.*\n([0-9]+ +\w+) .*( \S+)$`, "worker  state ...\n$1 ...$2"}, // the table's columns are as wide as the host
	{`\(\S+, pid [0-9]+\)`, "(HOST, pid PID)"},
	{`pid=[0-9]+`, "pid=PID"},
	{`host=\S+`, "host=HOST"},
	{`"host":"[^"]*","pid":[0-9]+`, `"host":"HOST","pid":PID`},
}

// STORE in a command is a directory of leases, in which worker 3 was leased and released by web-1.
// EMPTY is a new directory.
func TestTranscripts(t *testing.T) {
	store, empty := t.TempDir(), t.TempDir()
	l, g := hold(t, lease.File(store), lease.Options{Owner: "web-1", First: 3, Count: 1, NewStore: true})
	id, err := g.NextIDContext(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
	stranger := g.Decode(id)
	stranger.Worker = 7
	rogue, err := g.Layout().Encode(stranger)
	require.NoError(t, err)
	given := strings.NewReplacer("STORE", store, "EMPTY", empty, "STRANGER", rogue.String(), "ISSUED", id.String())
	shown := strings.NewReplacer(store, "STORE", empty, "EMPTY", rogue.String(), "STRANGER", id.String(), "ISSUED")
	lookup := lookupIn(map[string]string{"XDG_STATE_HOME": "/home/state"})
	transcript.Run(t, "snowflaked", func(t *testing.T, in io.Reader, args ...string) (string, string, int) {
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		for i := range args {
			args[i] = given.Replace(args[i])
		}
		var out, errs strings.Builder
		status := run(t.Context(), args, lookup, strings.NewReader(given.Replace(string(text))), &out, &errs)
		stable := func(text string) string {
			text = shown.Replace(withoutLog(text))
			for _, u := range unstable {
				text = regexp.MustCompile(u.is).ReplaceAllString(text, u.shown)
			}
			return text
		}
		return stable(out.String()), stable(errs.String()), status
	})
}
