package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A program is a package of the user.
type program struct {
	name   string // of its folder
	origin string // the README and the block, for messages
	source string
	runs   bool // run it, if it needs no server and ends by itself
}

func (p program) write(dir string) error {
	dir = filepath.Join(dir, p.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "main.go"), []byte(p.source), 0o644)
}

// directory is the folder in which the READMEs keep leases.
const directory = "/var/lib/orders/snowflake"

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// readmePrograms returns the programs among the Go blocks of a README. They keep their leases in a folder of dir.
func readmePrograms(origin, text, dir string) []program {
	var programs []program
	for i, match := range goBlock.FindAllStringSubmatch(text, -1) {
		p := program{
			name:   fmt.Sprintf("block%s%d", strings.NewReplacer("/", "", ".", "").Replace(path.Dir(origin)), i+1),
			origin: fmt.Sprintf("%s, Go block %d", origin, i+1),
			source: strings.ReplaceAll(match[1], directory, filepath.ToSlash(filepath.Join(dir, "leases"))),
		}
		if !strings.HasPrefix(p.source, "package main\n") {
			continue
		}
		p.runs = needsNoServer(p.source)
		if !p.runs { // nor is it linked, which saves most of the time
			p.source = strings.Replace(p.source, "package main", "package example", 1)
		}
		programs = append(programs, p)
	}
	return programs
}

// needsNoServer reports whether a program can run by itself: if it imports only packages of the root module
// and of Go, and neither listens nor waits for a signal.
func needsNoServer(source string) bool {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ImportsOnly)
	if err != nil {
		return false
	}
	for _, spec := range file.Imports {
		p := strings.Trim(spec.Path.Value, `"`)
		outside := strings.Contains(p, ".") && !slices.Contains([]string{".", "lease", "opaque", "typed", "workerid"}, folder(p))
		if outside || slices.Contains([]string{"net/http", "os/signal", "database/sql"}, p) {
			return false
		}
	}
	return true
}
