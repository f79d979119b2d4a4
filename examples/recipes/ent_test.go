//go:build unix && full

package recipes

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"entgo.io/ent/entc"
	entgen "entgo.io/ent/entc/gen"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func init() { onPostgreSQL["ent"] = testEnt }

// testEnt generates ent's code for the schema, and runs the program in testdata/ent with it.
func testEnt(t *testing.T, url string) {
	const target = "testdata/ent/ent"
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(target)) })
	require.NoError(t, entc.Generate("./testdata/ent/schema", &entgen.Config{
		Target:  target,
		Package: "github.com/seed-5394e6b1/snowflake/examples/recipes/" + target,
	}))
	for _, dir := range []string{"testdata/ent", "testdata/ent/schema"} {
		// Read the directory, so that a cached test result counts only while the files are
		// unchanged.
		_, err := os.ReadDir(dir)
		require.NoError(t, err)
	}
	var log strings.Builder
	program := exec.Command("go", "run", "./testdata/ent", url, t.TempDir())
	program.Stderr = &log
	out, err := program.Output()
	require.NoError(t, err, "%s%s", out, &log)
	assert.Equal(t, "true true true true true true\n1 failed\n", string(out))
}
