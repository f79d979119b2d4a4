//go:build unix

package recipes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"entgo.io/ent/entc"
	entgen "entgo.io/ent/entc/gen"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
)

// testEnt generates ent's code for the schema, and runs testdata/ent.go with it.
func testEnt(t *testing.T, url string) {
	depth.NeedFull(t, "it generates and builds a program")
	dir, err := os.MkdirTemp("testdata", "ent-") // a program of this module, which ./... does not contain
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	path := "github.com/seed-5394e6b1/snowflake/docs/recipes/" + filepath.ToSlash(dir)
	require.NoError(t, entc.Generate("./entschema", &entgen.Config{Target: filepath.Join(dir, "ent"), Package: path + "/ent"}))
	program, err := os.ReadFile("testdata/ent.go")
	require.NoError(t, err)
	program = []byte(strings.ReplaceAll(string(program), "GENERATED", path))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), program, 0o600))
	out, err := exec.Command("go", "run", "./"+dir, url).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "true true true true true true\n", string(out))
}
