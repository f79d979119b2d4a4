// Package installed has the paths of the servers that go run ./internal/install installs for the
// tests.
package installed

import (
	"os"
	"path/filepath"
	"testing"
)

// The servers. If you change a version, change the files in internal/install that have it, too.
const (
	KubeAPIServer = "kube-apiserver-v1.35.4"
	VersityGW     = "versitygw-v1.8.0"
	Dynalite      = "dynalite-v4.0.0" // a directory, with dynalite in node_modules
)

// Path returns the path of a server, in the user's cache directory. If the server is not
// installed yet, there is no such file.
func Path(server string) (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "snowflake", server), err
}

// Need returns the path of a server. If it is not there, Need skips the test, or fails if the environment
// variable CI is set.
func Need(t testing.TB, server string) string {
	t.Helper()
	path, err := Path(server)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		const say = "a server is not installed: go run github.com/seed-5394e6b1/snowflake/internal/install (%v)"
		if os.Getenv("CI") != "" {
			t.Fatalf(say, err)
		}
		t.Skipf(say, err)
	}
	return path
}
