// The compare program does the faults of docs/compare.md to this library and its Go
// peers. It builds the program in the folder faults with a time package whose clock
// can be set, and runs it.
//
//	go run ./bench/compare
//
// The Go toolchain reads the changed files as an overlay; no file on the disk
// changes. It needs a Unix, and takes about two minutes.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// patch replaces a text of a file, which must be there once.
type patch struct{ file, old, new string }

func main() {
	log.SetFlags(0)
	dir, err := os.MkdirTemp("", "compare")
	check(err)
	defer os.RemoveAll(dir)

	goTime := filepath.Join(output("go", "env", "GOROOT"), "src", "time", "time.go")
	overlay := struct{ Replace map[string]string }{map[string]string{
		goTime: patched(dir, goTime,
			patch{goTime, "sec, nsec, mono := runtimeNow()\n\tif mono == 0 {",
				"sec, nsec, mono := runtimeNow()\n\tsec += FaultWall\n\tif mono == 0 {"},
			patch{goTime, "var startNano int64 =", "// FaultWall, in seconds, sets the clock.\nvar FaultWall int64\n\nvar startNano int64 ="}),
	}}
	b, err := json.Marshal(overlay)
	check(err)
	bin := filepath.Join(dir, "faults")
	output("go", "build", "-tags", "faults", "-overlay", write(dir, "overlay.json", string(b)), "-o", bin,
		"github.com/seed-5394e6b1/snowflake/bench/compare/faults")
	run := exec.Command(bin, os.Args[1:]...)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	check(run.Run())
}

func patched(dir, path string, patches ...patch) string {
	b, err := os.ReadFile(path)
	check(err)
	text := string(b)
	for _, p := range patches {
		if strings.Count(text, p.old) != 1 {
			log.Fatalf("%s of this Go version does not have once:\n%s", p.file, p.old)
		}
		text = strings.Replace(text, p.old, p.new, 1)
	}
	return write(dir, filepath.Base(path), text)
}

func write(dir, name, text string) string {
	path := filepath.Join(dir, name)
	check(os.WriteFile(path, []byte(text), 0o600))
	return path
}

func output(name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		log.Fatal(fmt.Errorf("%v: %w", cmd, err))
	}
	return strings.TrimSpace(string(out))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
