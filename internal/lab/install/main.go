// The install program installs the programs for the tests that have no Debian packages, in the
// user's cache directory. It builds kube-apiserver, versitygw, nats-server and kustomize from the
// Go module proxy, in about 10 minutes of processor time, and gets dynalite and DuckDB from npm. It
// skips installed programs.
//
//	go run ./internal/lab/install
package main

import (
	"embed"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/seed-5394e6b1/snowflake/internal/lab/install/installed"
)

// files has the module of kube-apiserver, and the npm packages of dynalite and DuckDB. Kubernetes
// replaces the modules of its parts by folders of its repository; kube-apiserver.mod replaces them
// by published versions.
//
//go:embed kube-apiserver.mod kube-apiserver.sum dynalite duckdb
var files embed.FS

// installer installs a program, or a directory with it, in the empty directory dir.
type installer func(dir, name, version string) error

func main() {
	log.SetFlags(0)
	for program, install := range map[string]installer{
		installed.KubeAPIServer: kubeAPIServer,
		installed.VersityGW:     release("github.com/versity/versitygw/cmd/versitygw"),
		installed.NATSServer:    release("github.com/nats-io/nats-server/v2"),
		installed.Kustomize:     release("sigs.k8s.io/kustomize/kustomize/v5"),
		installed.Dynalite:      npm,
		installed.DuckDB:        npm,
	} {
		path, err := installed.Path(program)
		if err == nil {
			err = put(path, install)
		}
		if err != nil {
			log.Fatalf("%s: %v", program, err)
		}
		fmt.Println(path)
	}
}

// put installs a program unless it exists. It moves the program from a temporary directory, so that
// an interrupted installation leaves nothing incomplete.
func put(path string, install installer) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	cache, program := filepath.Split(path)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(cache, "install")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name, version, _ := strings.Cut(program, "-v")
	if err := install(dir, name, "v"+version); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, name), path)
}

// release returns an installer of a program whose module has no replace lines.
func release(pkg string) installer {
	return func(dir, _, version string) error {
		return run(dir, "go", "install", "-trimpath", "-ldflags=-s -w", pkg+"@"+version)
	}
}

// kubeAPIServer builds kube-apiserver in a module without code.
func kubeAPIServer(dir, name, _ string) error {
	for _, file := range []string{"mod", "sum"} {
		b, err := files.ReadFile(name + "." + file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "go."+file), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return run(dir, "go", "install", "-trimpath", "-ldflags=-s -w", "k8s.io/kubernetes/cmd/kube-apiserver")
}

// npm installs a package. It does not need its scripts, because it has a library for each system.
func npm(dir, name, _ string) error {
	lock, err := fs.Sub(files, name)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	if err := os.CopyFS(path, lock); err != nil {
		return err
	}
	return run(path, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
}

func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOWORK=off", "GOFLAGS=-mod=readonly")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w", cmd, err)
	}
	return nil
}
