//go:build go1.25

package page_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/jstest"
	"github.com/seed-5394e6b1/snowflake/server"
	"github.com/seed-5394e6b1/snowflake/server/page"
)

// The page's texts for programs get an ID without rounding it, from a server with or without
// tokens.
func TestTextsForProgramsRun(t *testing.T) {
	for name, token := range map[string]string{"without tokens": "", "with tokens": "a-token-of-many-letters"} {
		gen, err := snowflake.New(1, nil)
		require.NoError(t, err)
		o := server.Options{Home: page.Handler(gen.Layout(), &page.Options{NeedsToken: token != ""})}
		if token != "" {
			o.Tokens = func() []server.Token { return []server.Token{{Secret: token}} }
		}
		s, err := server.New(gen, &o)
		require.NoError(t, err)
		listener := httptest.NewServer(s)
		t.Cleanup(listener.Close)
		var programs struct{ Curl, Node, Python string }
		resp, err := http.Get(listener.URL + "/programs.js")
		require.NoError(t, err)
		script, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		jstest.Run(t, map[string]string{"programs.js": string(script)}, `import { programs } from "./programs.js";`, listener.URL+"/id", fmt.Sprintf(`const { curl, node, python } = programs(input, %v); return { Curl: curl, Node: node, Python: python };`, token != ""), &programs)
		var last snowflake.ID
		for _, args := range [][]string{
			{"sh", "-c", programs.Curl}, {"node", "--input-type=module", "-e", programs.Node + "\nconsole.log(id)"},
			{"python3", "-c", programs.Python + "\nprint(id)"},
		} {
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Logf("%s is not installed", args[0])
				continue
			}
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Env = append(os.Environ(), "TOKEN="+token)
			out, err := cmd.Output()
			require.NoError(t, err, "%s, %s: %s", name, args, out)
			id, err := snowflake.ParseID(strings.Trim(string(out), "{\"id:}\n"))
			require.NoError(t, err, "%s, %s: %s", name, args, out)
			assert.Less(t, time.Since(snowflake.Decode(id).Time).Abs(), time.Hour, "%s, %s: it is the ID that was issued", name, args)
			assert.Greater(t, id, last)
			last = id
		}
	}
}
