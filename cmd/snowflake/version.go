package main

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

var commandVersion = command{
	name:     "version",
	synopsis: []string{""},
	summary:  "print the version of this program",
	about: `Prints the version of the module that this program was built from, the commit
if it is known, and the version of Go.
`,
	setup: func(*flag.FlagSet) action {
		return func(s streams, args []string) error {
			if len(args) > 0 {
				return errors.New("version takes no arguments")
			}
			v := version()
			if s.json {
				return s.writeJSON(v)
			}
			fmt.Fprintf(s.out, "snowflake %s", v.Version)
			if v.Commit != "" {
				fmt.Fprintf(s.out, " (%s)", v.Commit)
			}
			fmt.Fprintf(s.out, ", %s %s\n", v.Go, v.Platform)
			return nil
		}
	},
}

// build says what the program was built from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func version() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
	return b
}
