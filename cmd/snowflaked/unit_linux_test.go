//go:build go1.25

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock/vmclocktest"
)

// ownSystemd starts a systemd in namespaces of its own, which knows the units of the folder
// $1/units alone and sees tmpfs wherever it writes: it must touch nothing of this host. In its /dev
// there is the file $1/vmclock0.
const ownSystemd = `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/own /run/dev /run/gen /run/lock
cp -r "$1/." /run/own
mkdir /run/own/host
mount --bind "$1" /run/own/host # for the log alone
for d in /tmp /var/tmp /var/lib /var/log /etc/systemd; do mount -t tmpfs tmpfs $d; done
mount -t tmpfs tmpfs /run/dev
for d in null zero full random urandom tty ptmx; do cp -a /dev/$d /run/dev; done
mkdir /run/dev/shm /run/dev/pts
cp /run/own/vmclock0 /run/dev/
mount --move /run/dev /dev
exec env -i container=lxc PATH="$PATH" SYSTEMD_UNIT_PATH=/run/own/units SYSTEMD_GENERATOR_PATH=/run/gen \
	SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/run/gen /lib/systemd/systemd --system --unit=test.target --log-target=null --show-status=no`

// systemd runs the unit with all its restrictions: the program tells it when it issues IDs, sees
// the machine's device for clones, and can ask the kernel about the clock. A restriction can disable
// one of these without an error.
func TestUnitSwitchesNothingOff(t *testing.T) {
	t.Parallel()
	unit := string(deployed(t, "systemd/snowflaked.service"))
	servertest.Program(t, "systemd", "systemd-analyze")
	if os.Geteuid() != 0 {
		t.Skip("only root may start a systemd of its own")
	}
	dir := t.TempDir()
	units := filepath.Join(dir, "units")
	require.NoError(t, os.Mkdir(units, 0o755))
	vmclocktest.Write(t, filepath.Join(dir, "vmclock0"), 1)
	require.NoError(t, os.Chmod(filepath.Join(dir, "vmclock0"), 0o444))
	program, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "snowflaked"), program, 0o755))
	require.Equal(t, 1, strings.Count(unit, "ExecStart=/usr/local/bin/snowflaked\n"))
	listen, admin := servertest.Port(t), servertest.Port(t)
	unit = strings.Replace(unit, "ExecStart=/usr/local/bin/snowflaked\n",
		fmt.Sprintf("ExecStart=/run/own/snowflaked --listen 127.0.0.1:%d\n"+
			"StandardError=append:/run/own/host/log\nEnvironment=SNOWFLAKED_TEST_PROGRAM=1\n", listen), 1)
	for name, text := range map[string]string{
		"snowflaked.service": unit,
		"sysinit.target":     "", "basic.target": "", "shutdown.target": "",
		"test.target": "[Unit]\nDefaultDependencies=no\nWants=snowflaked.service started.service\n",
		// It is started once systemd considers snowflaked.service started.
		"started.service": fmt.Sprintf("[Unit]\nDefaultDependencies=no\nRequires=snowflaked.service\nAfter=snowflaked.service\n[Service]\n"+
			"ExecStart=/run/own/snowflaked --listen 127.0.0.1:%d --store /run/started\nEnvironment=SNOWFLAKED_TEST_PROGRAM=1\n", admin),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(units, name), []byte(text), 0o644))
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup",
		"sh", "-c", ownSystemd, "sh", dir)
	said := func() string { // by the program
		b, _ := os.ReadFile(filepath.Join(dir, "log"))
		return string(b)
	}
	var log servertest.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-gone
		if t.Failed() {
			t.Log(log.String(), said())
		}
	})
	ask := func(port int, path string) (status int, text string) {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	await(t, "the service that comes after", func() bool {
		status, _ := ask(admin, "/id")
		return status == 200 || isClosed(gone)
	})
	status, text := ask(listen, "/id")
	assert.Equal(t, 200, status, text)
	_, metrics := ask(listen, "/metrics")
	assert.Contains(t, metrics, "\nsnowflake_lease_clone_guard 1\n", "the device for clones is hidden")
	assert.Contains(t, metrics, "\nsnowflake_lease_clock_synchronized ", "the kernel cannot be asked about the clock")
	assert.NotContains(t, said(), "cannot be used")
	assert.Contains(t, said(), "serving")
}
