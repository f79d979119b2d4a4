// The release program manages the versions of the published modules of this repository.
//
//	go run ./internal/lab/release check  # every go.mod requires its siblings at the next version
//	go run ./internal/lab/release set    # write the next version into every go.mod
//	go run ./internal/lab/release try    # tag a clone, and use each module as users do
//	go run ./internal/lab/release api    # compare the API with the last release
//	go run ./internal/lab/release strip  # remove the replace lines, for the commit to be tagged
//	go run ./internal/lab/release tags   # print the tags, the root module's first
//
// programs.sh builds the programs. try keeps some 0.9 GB in the user's cache directory
// (snowflake/release-*), which you may delete. modules.go has the next version and the modules that
// are not published; all others in go.work are. docs/releasing.md says what a release has.
//
// # A release
//
// In development each go.mod replaces its siblings by their folders, so that a change of two
// modules is one commit. "go install" refuses a module with replace lines, so the tagged commit has
// none, and the next commit puts them back.
//
//  1. Choose the version. Before 1.0, a patch (0.1.1) breaks no users; a minor version (0.2.0) may,
//     if the CHANGELOG says how. The command api says whether you need a minor version. It also
//     compares the internal packages that other published modules import, because users may update
//     the root module alone. If a commit after a release breaks users, choose the next version in
//     it.
//  2. Write the version into modules.go, and run the command set.
//  3. In CHANGELOG.md, write the version and the date into the entry's title, as in
//     "## 0.1.0 (2026-12-01)".
//  4. Commit and push. Go on when CI is green, and "SNOWFLAKE_FULL=1 go test -p 3 -timeout 30m
//     work" has passed, which CI runs only once a week.
//  5. Tag the root module at a commit without replace lines, then go back to development, with the
//     commands below.
//  6. The workflow release.yml checks the tagged commit, tags the other modules there, makes the
//     release page from the CHANGELOG, and pushes the image. If a job fails for a cause outside
//     this repository, run the failed jobs again. If the workflow does not run, tag the other
//     modules by hand, without programs, image and attestations.
//  7. Ask the module proxy for each module once, so that pkg.go.dev shows it: "go list -m
//     github.com/seed-5394e6b1/snowflake/lease/redislease@v0.1.0".
//
// Step 5:
//
//	$ go run ./internal/lab/release strip
//	$ git commit -am "release v0.1.0"
//	$ git tag -a -m "v0.1.0" v0.1.0
//	$ git revert --no-edit HEAD
//	$ go run ./internal/lab/release check
//	$ git push --atomic origin main v0.1.0
//
// Step 6, by hand:
//
//	$ git checkout v0.1.0
//	$ tags=$(go run ./internal/lab/release tags | tail -n +2)
//	$ for tag in $tags; do git tag "$tag"; done
//	$ git push --atomic origin $tags
//
// Never move a tag: the module proxy and the checksum database keep the first commit that they saw.
// If a release is broken, release the next patch, with a retract line for the broken version in
// each go.mod.
//
// # Adding a module
//
// Run "go work use". If a module begins to import a sibling, write the requirement by hand, because
// "go mod tidy" would ask the module proxy for it:
//
//	$ go mod edit -require=github.com/seed-5394e6b1/snowflake/metrics@v0.1.0
//
// Then run the command set, which writes the folders of all siblings, and "GOWORK=off go mod tidy"
// in each module. Require the lowest version that works, because programs that import the module
// get it or a later one; CI builds each module with its own versions, and tests the workspace with
// the greatest. Only snowflaked, which nobody imports, requires new versions.
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
