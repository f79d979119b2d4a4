//go:build unix && go1.25

package k8slease_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/kubetest"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

// podEnv is set for a child process that acts as a pod.
const podEnv = "K8SLEASE_TEST_POD"

// pod acquires a lease in the cluster of this pod.
func pod() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := k8slease.InCluster(nil)
	if err != nil {
		return err
	}
	l, err := lease.Acquire(ctx, s, &lease.Options{NewStore: true, Count: 1})
	if err != nil {
		return err
	}
	fmt.Println("leased", l.Worker())
	return l.Release(ctx)
}

// A pod's token, certificate authority and namespace are files with fixed names. The child has them
// in a separate mount namespace.
func inCluster(t *testing.T, c *cluster) {
	unshare, err := exec.LookPath("unshare")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("this takes root, and unshare of the package util-linux")
	}
	if err := exec.Command(unshare, "-m", "mount", "-t", "tmpfs", "tmpfs", "/var/run").Run(); err != nil {
		t.Skipf("here root may not mount: %v", err)
	}
	token := c.account(t, "pods", rights...)
	dir := t.TempDir()
	ca := servertest.Must(os.ReadFile(c.CA))(t)
	for name, content := range map[string]string{
		"token": token, "ca.crt": string(ca), "namespace": "pods",
	} {
		servertest.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	exe := servertest.Must(os.Executable())(t)
	const files = "/var/run/secrets/kubernetes.io/serviceaccount"
	cmd := exec.CommandContext(t.Context(), unshare, "-m", "sh", "-c",
		`mount -t tmpfs tmpfs /var/run && mkdir -p `+files+` && cp "$1"/* `+files+` && exec "$0"`, exe, dir)
	host, port, _ := net.SplitHostPort(c.Addr)
	cmd.Env = append(os.Environ(), podEnv+"=1", "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v\n%s", err, out)
	require.Contains(t, string(out), "leased 0\n", "%v\n%s", err, out)
	servertest.Do(t, c.Ask(kubetest.Token, "GET", leases("pods")+"/snowflake--worker--0", nil, nil))
}
