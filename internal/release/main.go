// The release program knows which modules of this repository are published, in which order, and at which version.
// docs/releasing.md says when to run which command.
//
//	go run ./internal/release check      # every go.mod requires its siblings at the next version
//	go run ./internal/release set        # write the next version into every go.mod
//	go run ./internal/release try        # publish into a folder, and use each module as a user does
//	go run ./internal/release api        # compare the API with the last release
//	go run ./internal/release proxy DIR  # publish into a folder, for GOPROXY=file://DIR
//	go run ./internal/release strip      # remove the replace lines, for the commit to be tagged
//	go run ./internal/release tags       # print the tags, in their order
//	go run ./internal/release binaries DIR # build the programs for each platform, with checksums and lists of their modules
//	go run ./internal/release notes      # print the CHANGELOG of the next version
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	command := strings.Join(args[:min(1, len(args))], "")
	want := 1
	if command == "proxy" || command == "binaries" {
		want = 2
	}
	if len(args) != want {
		return errors.New("usage: go run ./internal/release check|set|try|api|proxy DIR|strip|tags|binaries DIR|notes")
	}
	t, err := readTree(".")
	if err != nil {
		return err
	}
	switch command {
	case "check":
		return t.check()
	case "set":
		return t.set()
	case "try":
		return t.try()
	case "api":
		return t.api()
	case "proxy":
		return t.proxy(args[1])
	case "binaries":
		return t.binaries(args[1], platforms)
	case "strip":
		return t.strip()
	case "tags":
		for _, dir := range published {
			fmt.Println(tag(dir, version))
		}
		return nil
	case "notes":
		return t.notes(os.Stdout)
	default:
		return fmt.Errorf("%q is not a command of release", command)
	}
}
