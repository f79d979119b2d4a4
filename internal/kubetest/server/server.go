// Package server says where the tests' kube-apiserver is.
package server

import (
	"os"
	"path/filepath"
)

// Version is that of the server. It is in apiserver.mod, too.
const Version = "v1.35.4"

// Path returns the file in the user's cache directory that the server is, or will be.
func Path() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "snowflake", "kube-apiserver-"+Version), err
}
