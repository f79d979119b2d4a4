// Package installed has the paths of the programs that go run ./internal/lab/install installs for
// the tests.
package installed

import (
	"os"
	"path/filepath"
	"testing"
)

// The programs. The versions of kube-apiserver, dynalite and DuckDB are also in files of
// internal/lab/install.
const (
	KubeAPIServer = "kube-apiserver-v1.35.4"
	VersityGW     = "versitygw-v1.8.0"
	NATSServer    = "nats-server-v2.14.5"
	Kustomize     = "kustomize-v5.7.1"
	Dynalite      = "dynalite-v4.0.0" // a directory, with dynalite in node_modules
	DuckDB        = "duckdb-v1.5.6"   // a directory, with @duckdb/node-api in node_modules
)

// Path returns the path of a program, in the user's cache directory, whether it is installed or
// not.
func Path(program string) (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "snowflake", program), err
}

// Need returns the path of a program. If it is not installed, Need skips the test or, if the
// environment variable CI is set, fails it.
func Need(t testing.TB, program string) string {
	t.Helper()
	path, err := Path(program)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		const format = "a program is not installed: go run github.com/seed-5394e6b1/snowflake/internal/lab/install (%v)"
		if os.Getenv("CI") != "" {
			t.Fatalf(format, err)
		}
		t.Skipf(format, err)
	}
	return path
}
