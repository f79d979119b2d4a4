// Package server has the version and the path of the kube-apiserver that tests start.
package server

import (
	"os"
	"path/filepath"
)

// Version is the server's version. If you change it, change apiserver.mod too.
const Version = "v1.35.4"

// Path returns the server's file, in the user's cache directory. The file is missing if the server is
// not built yet.
func Path() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "snowflake", "kube-apiserver-"+Version), err
}
