// The release program manages the versions of the published modules of this repository.
// docs/releasing.md has the steps of a release.
//
//	go run ./internal/lab/release check  # every go.mod requires its siblings at the next version
//	go run ./internal/lab/release set    # write the next version into every go.mod
//	go run ./internal/lab/release try    # tag a clone, and use each module as users do
//	go run ./internal/lab/release api    # compare the API with the last release
//	go run ./internal/lab/release strip  # remove the replace lines, for the commit to be tagged
//	go run ./internal/lab/release tags   # print the tags, the root module's first
//
// programs.sh builds the programs.
//
// Other tools do less. multimod tags a list of modules, but does not change replace lines.
// gorelease ignores them, so it cannot load a module whose siblings have no tag; api runs apidiff,
// which can.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path"
	"strings"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	t, err := readTree(".")
	if err != nil {
		return err
	}
	switch strings.Join(args, " ") {
	case "check":
		return t.check()
	case "set":
		return t.set()
	case "try":
		return t.try()
	case "api":
		return t.api()
	case "strip":
		return t.strip()
	case "tags":
		for _, dir := range t.published() {
			fmt.Println(path.Join(dir, version))
		}
		return nil
	}
	return errors.New("usage: go run ./internal/lab/release check|set|try|api|strip|tags")
}
