// Package installed has the paths of the programs that go run ./internal/lab/install installs for
// the tests.
package installed

import (
	"os"
	"path/filepath"
	"testing"
)

// The programs. If you change the version of kube-apiserver, dynalite or DuckDB, change the files in
// internal/lab/install that have it, too.
const (
	KubeAPIServer = "kube-apiserver-v1.35.4"
	VersityGW     = "versitygw-v1.8.0"
	NATSServer    = "nats-server-v2.14.5"
	Kustomize     = "kustomize-v5.7.1"
	Dynalite      = "dynalite-v4.0.0" // a directory, with dynalite in node_modules
	DuckDB        = "duckdb-v1.5.6"   // a directory, with @duckdb/node-api in node_modules
)

// Path returns the path of a program, in the user's cache directory. If the program is not
// installed yet, there is no such file.
func Path(program string) (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "snowflake", program), err
}

// Need returns the path of a program. If it is not there, Need skips the test, or fails if the
// environment variable CI is set.
func Need(t testing.TB, program string) string {
	t.Helper()
	path, err := Path(program)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		const say = "a program is not installed: go run github.com/seed-5394e6b1/snowflake/internal/lab/install (%v)"
		if os.Getenv("CI") != "" {
			t.Fatalf(say, err)
		}
		t.Skipf(say, err)
	}
	return path
}
