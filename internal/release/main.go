// The release program knows which modules of this repository are published, and at which version.
// docs/releasing.md says when to run which command.
//
//	go run ./internal/release check        # every go.mod requires its siblings at the next version
//	go run ./internal/release set          # write the next version into every go.mod
//	go run ./internal/release try          # tag a clone, and use each module as a user does
//	go run ./internal/release api          # compare the API with the last release
//	go run ./internal/release strip        # remove the replace lines, for the commit to be tagged
//	go run ./internal/release tags         # print the tags, the root module's first
//	go run ./internal/release binaries DIR # build the programs for each platform, with checksums and lists of their modules
//
// Other tools do less. multimod keeps a list of modules and tags them, but knows no replace lines. gorelease ignores
// replace lines, so it cannot load a module whose siblings have no tag yet; api runs apidiff, which can. goreleaser needs
// syft for the lists of modules, and both together are more than a thousand modules, to build two programs.
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
	switch command := strings.Join(args[:min(1, len(args))], ""); {
	case command == "binaries" && len(args) == 2:
		return t.binaries(args[1], platforms)
	case len(args) != 1:
	case command == "check":
		return t.check()
	case command == "set":
		return t.set()
	case command == "try":
		return t.try()
	case command == "api":
		return t.api()
	case command == "strip":
		return t.strip()
	case command == "tags":
		for _, dir := range t.published() {
			fmt.Println(path.Join(dir, version))
		}
		return nil
	}
	return errors.New("usage: go run ./internal/release check|set|try|api|strip|tags|binaries DIR")
}
