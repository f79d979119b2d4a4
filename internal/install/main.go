// The install program installs the servers for the tests that are no Debian packages, in the
// user's cache directory. It builds kube-apiserver, in some 7 minutes of processor time, and
// versitygw, in some 2 minutes, from the Go module proxy, and takes dynalite from npm. Servers that are
// there it leaves alone.
//
//	go run ./internal/install
package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/seed-5394e6b1/snowflake/internal/install/installed"
)

// The modules of the servers, and the npm package that has dynalite. Kubernetes replaces the modules of
// its parts by folders of its repository; kube-apiserver.mod replaces them by the versions that are published.
//
//go:embed *.mod *.sum dynalite
var files embed.FS

func main() {
	log.SetFlags(0)
	for server, install := range map[string]func(dir, path string) error{
		installed.KubeAPIServer: build("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
		installed.VersityGW:     build("versitygw", "github.com/versity/versitygw/cmd/versitygw"),
		installed.Dynalite:      npm,
	} {
		path, err := installed.Path(server)
		if err == nil {
			err = put(path, install)
		}
		if err != nil {
			log.Fatalf("%s: %v", server, err)
		}
		fmt.Println(path)
	}
}

// put lets install make a server at another path, so that an installation that was ended leaves no half of a
// server. If the server is there, put does nothing.
func put(path string, install func(dir, path string) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "install")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	part := fmt.Sprint(path, ".", os.Getpid())
	defer os.RemoveAll(part)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), install(dir, part)); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// build builds a Go program in a module that has only requirements.
func build(module, pkg string) func(dir, path string) error {
	return func(dir, path string) error {
		for _, name := range []string{"mod", "sum"} {
			b, err := files.ReadFile(module + "." + name)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "go."+name), b, 0o600)
			}
			if err != nil {
				return err
			}
		}
		return run(dir, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, pkg)
	}
}

// npm installs dynalite, whose scripts do not run: the package has its library for each system.
func npm(_, path string) error {
	dynalite, err := fs.Sub(files, "dynalite")
	if err != nil {
		return err
	}
	if err := os.CopyFS(path, dynalite); err != nil {
		return err
	}
	return run(path, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
}

func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w", cmd, err)
	}
	return nil
}
