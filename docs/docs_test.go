//go:build go1.25

// Package docs_test holds the pages of this project against its code: each Go program of a page
// compiles, and each other Go block is code that a test or an example of the tree compiles.
package docs_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = ".."

// needClone skips a test, or fails it in CI, if the other modules are not here, as in the module
// that users download.
func needClone(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(root + "/server/go.mod"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("run this test in a clone of the repository: %v", err)
	}
}

// TestBlocksAreCodeThatCompiles finds each block of each page, line by line, in the files of the
// tree. Indentation, alignment and comments at the end of a line do not count. A line of "..."
// leaves lines out.
func TestBlocksAreCodeThatCompiles(t *testing.T) {
	needClone(t)
	var sources strings.Builder
	for _, path := range files(t, ".go", ".sql", ".yaml", ".proto") {
		sources.WriteString(plain(read(t, path)))
	}
	blocks := 0
	for _, page := range files(t, ".md") {
		languages := "go"
		if strings.HasSuffix(page, "recipes.md") {
			languages = "go|sql|proto|yaml"
		}
		for _, block := range fenced(read(t, page), languages) {
			blocks++
			if strings.HasPrefix(block, "package main\n") {
				build(t, page, block)
				continue
			}
			for part := range strings.SplitSeq(plain(block), "\n...\n") {
				part = "\n" + strings.Trim(part, "\n") + "\n"
				assert.True(t, strings.Contains(sources.String(), part), "%s: no file of the tree has%s", page, part)
			}
		}
	}
	assert.Greater(t, blocks, 10)
}

// build compiles a program as the module's own.
func build(t *testing.T, page, program string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	out, err := exec.Command("gofmt", "-l", file).CombinedOutput()
	require.NoError(t, err)
	assert.Empty(t, string(out), "%s: gofmt would change a program", page)
	cmd := exec.Command("go", "vet", file)
	// go.work lists the modules that the program imports.
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK=")
	out, err = cmd.CombinedOutput()
	assert.NoError(t, err, "%s: %s", page, out)
}

// TestFirstProgramPrintsWhatThePageSays runs the README's first program, whose output stands below
// it.
func TestFirstProgramPrintsWhatThePageSays(t *testing.T) {
	page := read(t, filepath.Join(root, "README.md"))
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(fenced(page, "go")[0]), 0o600))
	cmd := exec.Command("go", "run", file)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	digits := regexp.MustCompile(`\d+`)
	assert.Equal(t, digits.ReplaceAllString(fenced(page, "text")[0], "0"), digits.ReplaceAllString(string(out), "0"))
}

// TestReadmeIsShort keeps the README to what one reads before trying the library.
func TestReadmeIsShort(t *testing.T) {
	assert.LessOrEqual(t, len(strings.Fields(read(t, filepath.Join(root, "README.md")))), 1200)
}

// TestLinksLeadSomewhere follows the links from page to page, and to headings. In a block of code
// f[T](x) is no link.
func TestLinksLeadSomewhere(t *testing.T) {
	needClone(t)
	link, block := regexp.MustCompile(`\]\(([^)\s]+)\)`), regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	for _, page := range files(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(block.ReplaceAllString(read(t, page), ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			to := page
			if target != "" {
				to = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(to); !assert.NoError(t, err, page) || anchor == "" {
				continue
			}
			assert.Contains(t, anchors(read(t, to)), anchor, "%s: %s has no such heading", page, to)
		}
	}
}

// anchors are the names that a forge gives to the headings of a page.
func anchors(page string) (names []string) {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		name := drop.ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// files lists the files of the tree with one of these endings.
func files(t *testing.T, endings ...string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return fs.SkipDir
		}
		for _, ending := range endings {
			if strings.HasSuffix(path, ending) {
				paths = append(paths, path)
			}
		}
		return nil
	}))
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

// fenced returns the blocks of a page in these languages. A block in a list is indented.
func fenced(page, languages string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?ms)^ *```(?:"+languages+")\n(.*?)^ *```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

var (
	comment = regexp.MustCompile(`(^|\s+)(//|--) .*$`)
	spaces  = regexp.MustCompile(`\s+`)
)

// plain takes indentation, alignment, comments and empty lines from each line.
func plain(s string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.SplitSeq(s, "\n") {
		line = strings.TrimSpace(spaces.ReplaceAllString(comment.ReplaceAllString(line, ""), " "))
		if line != "" {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// TestOperationsExplainsEachAlertAndLogLine finds each alert, and each warning and error that a lease
// logs, on the page for the person on call, each log line of the page in the code, and the text of
// each error beside its name.
func TestOperationsExplainsEachAlertAndLogLine(t *testing.T) {
	needClone(t)
	page, code := read(t, "operations.md"), new(strings.Builder)
	for _, path := range files(t, ".go") {
		code.WriteString(read(t, path))
	}
	find := func(pattern, in string) (found []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(in, -1) {
			found = append(found, m[1])
		}
		return found
	}
	for _, alert := range find(`(?m)alert: (\w+)$`, read(t, root+"/metrics/rules/snowflake.yml")+read(t, root+"/metrics/rules/snowflaked.yml")) {
		assert.True(t, strings.Contains(page, "`"+alert+"`"), "the page does not explain the alert %s", alert)
	}
	logged := find(`\b(?:j|l\.log)\.(?:warn|fails|tell)\([^"\n]*"([^"]+ [^"]+)"`, code.String())
	assert.Greater(t, len(logged), 10)
	for _, line := range logged {
		assert.True(t, strings.Contains(page, "`lease: "+line+"`"), "the page does not explain the log line %q", line)
	}
	// Whoever reads a log has an error's text, and not its name.
	texts := map[string]string{}
	for _, m := range regexp.MustCompile(`(Err\w+)\s+= errors\.New\("((?:lease|snowflake): [^"]+)"\)`).FindAllStringSubmatch(code.String(), -1) {
		texts[m[1]] = m[2]
	}
	explained := regexp.MustCompile("(?m)^\\|([^|]*`(?:lease|snowflake)\\.(Err\\w+)`[^|]*)\\|").FindAllStringSubmatch(page, -1)
	assert.Greater(t, len(explained), 10)
	for _, m := range explained {
		assert.True(t, texts[m[2]] != "" && strings.Contains(m[1], "`"+texts[m[2]]+"`"), "the row of %s does not have its text %q", m[2], texts[m[2]])
	}
	for _, line := range find("`(lease: [^`]+|waiting for [^`]+|cannot read; [^`]+)`", page) {
		logs := strings.Contains(code.String(), `"`+strings.TrimPrefix(line, "lease: "))
		assert.True(t, logs || strings.Contains(code.String(), `"`+line+`"`), "no code logs %q", line)
	}
}
