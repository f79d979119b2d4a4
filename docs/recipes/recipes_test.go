package recipes

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRecipesAreTheCodeThatRuns finds each block of docs/recipes.md, line by line, in the
// files of this folder. Indentation does not count, and a line of "..." leaves
// lines out.
func TestRecipesAreTheCodeThatRuns(t *testing.T) {
	page, err := os.ReadFile("../recipes.md")
	require.NoError(t, err)
	var paths, sources []string
	for _, pattern := range []string{"*.go", "*/*.go", "*/*.sql", "*/*.yaml"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		paths = append(paths, found...)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		sources = append(sources, trimmed(string(b)))
	}
	blocks := regexp.MustCompile("(?ms)^```(?:go|sql|proto|yaml)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	assert.Greater(t, len(blocks), 15)
	for _, block := range blocks {
		for part := range strings.SplitSeq(trimmed(block[1]), "\n...\n") {
			found := false
			for _, source := range sources {
				found = found || strings.Contains(source, "\n"+strings.Trim(part, "\n")+"\n")
			}
			assert.True(t, found, "no test has\n%s", part)
		}
	}
}

// trimmed takes the indentation from each line.
func trimmed(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}
