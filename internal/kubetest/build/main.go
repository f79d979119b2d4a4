// The build program builds a kube-apiserver for the tests, from the Go module proxy, and puts
// it into the user's cache directory. It takes some 7 minutes of processor time. If the server is
// there already, it does nothing.
//
//	go run ./internal/kubetest/build
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/seed-5394e6b1/snowflake/internal/kubetest/server"
)

// The module of the server. Kubernetes replaces the modules of its parts by folders of its
// repository; this module replaces them by the versions that are published.
var (
	//go:embed apiserver.mod
	mod []byte
	//go:embed apiserver.sum
	sum []byte
)

func main() {
	log.SetFlags(0)
	path, err := server.Path()
	if err == nil {
		err = build(path)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(path)
}

func build(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "kube-apiserver")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o600),
		os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600),
		os.MkdirAll(filepath.Dir(path), 0o755),
	); err != nil {
		return err
	}
	part := fmt.Sprint(path, ".", os.Getpid()) // so that a build that was ended leaves no half of a server
	defer os.Remove(part)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", part, "k8s.io/kubernetes/cmd/kube-apiserver")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w", cmd, err)
	}
	return os.Rename(part, path)
}
