// The compare program exposes this library and its Go peers to the faults of docs/compare.md. It
// builds the program in the folder faults with a time package whose clock can be set, and runs it.
//
//	go run ./bench/compare
//
// The Go toolchain reads the changed file as an overlay, so no file on disk changes. The program
// needs Unix, and takes about two minutes.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// patches maps texts of Go's time/time.go, each of which must occur once, to their replacements.
var patches = map[string]string{
	"sec, nsec, mono := runtimeNow()\n\tif mono == 0 {": "sec, nsec, mono := runtimeNow()\n\tsec += FaultWall\n\tif mono == 0 {",
	"var startNano int64 =":                             "// FaultWall, in seconds, sets the clock.\nvar FaultWall int64\n\nvar startNano int64 =",
}

func main() {
	log.SetFlags(0)
	dir, err := os.MkdirTemp("", "compare")
	check(err)
	defer os.RemoveAll(dir)

	goTime := filepath.Join(output("go", "env", "GOROOT"), "src", "time", "time.go")
	text, err := os.ReadFile(goTime)
	check(err)
	for old, new := range patches {
		if bytes.Count(text, []byte(old)) != 1 {
			log.Fatalf("%s of this Go version does not have once:\n%s", goTime, old)
		}
		text = bytes.Replace(text, []byte(old), []byte(new), 1)
	}
	patched, overlay, bin := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "faults")
	check(os.WriteFile(patched, text, 0o600))
	files, err := json.Marshal(map[string]any{"Replace": map[string]string{goTime: patched}})
	check(err)
	check(os.WriteFile(overlay, files, 0o600))
	output("go", "build", "-tags", "faults", "-overlay", overlay, "-o", bin, "github.com/seed-5394e6b1/snowflake/bench/compare/faults")
	run := exec.Command(bin, os.Args[1:]...)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	check(run.Run())
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
