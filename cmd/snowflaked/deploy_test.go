//go:build unix && go1.25

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/lab/kubetest"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// deployed returns a file of the repository's folder deploy. If the module is not in a clone, it
// skips the test, or fails it in CI.
func deployed(t *testing.T, name string) []byte {
	t.Helper()
	const deploy = "../../deploy"
	if _, err := os.Stat(deploy); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the repository's folder deploy is not in this module: run this test in a clone")
	}
	b := servertest.Must(os.ReadFile(filepath.Join(deploy, name)))(t)
	return b
}

// settings configures the program with an environment, and fails if the program does not know one
// of its variables.
func settings(t *testing.T, env map[string]string) *config {
	t.Helper()
	read := map[string]bool{}
	p := &program{command.New("snowflaked", nil, io.Discard, io.Discard, time.Now), func(name string) (string, bool) {
		read[name] = true
		v, isSet := env[name]
		return v, isSet
	}}
	c, cmd := new(config), new(cobra.Command)
	p.define(c, cmd)
	require.NoError(t, p.setFromEnvironment(cmd.Flags()))
	require.NoError(t, c.check())
	for name := range env {
		assert.True(t, read[name] || name == "GOMEMLIMIT", "the program does not read %s", name)
	}
	return c
}

// The program accepts the manifest's settings, and the pod has the time that the program may take
// to stop.
func TestManifestFitsTheProgram(t *testing.T) {
	pod := kubetest.PodOf(t, deployed(t, "kubernetes/snowflaked.yaml"))
	c := settings(t, pod.Env())
	pod.Fits(t, c.drain, c.drain+c.grace+releaseTime)
	probes := pod.Containers[0]
	assert.Equal(t, "/readyz", probes.ReadinessProbe.HTTPGet.Path)
	assert.Equal(t, "/healthz", probes.LivenessProbe.HTTPGet.Path, "a pod lives as long as it answers /healthz")
	assert.Equal(t, "/healthz", probes.StartupProbe.HTTPGet.Path, "a pod lives as long as it answers /healthz")
	ports := map[string]string{}
	for _, port := range probes.Ports {
		ports[port.Name] = fmt.Sprint(":", port.ContainerPort)
	}
	for _, p := range []kubetest.Probe{probes.LivenessProbe, probes.ReadinessProbe, probes.StartupProbe} {
		assert.Equal(t, c.admin, ports[p.HTTPGet.Port], "a probe asks the port %s, where clients can take all connections", p.HTTPGet.Port)
	}
}

// The program accepts the unit's settings, the unit gives it the time to stop, and systemd accepts
// the unit.
func TestUnitFitsTheProgram(t *testing.T) {
	t.Parallel()
	b := deployed(t, "systemd/snowflaked.service")
	b = regexp.MustCompile(`(?m)^#(\w+=)`).ReplaceAll(b, []byte("$1")) // with the credentials
	env, credentials := map[string]string{}, map[string]bool{}
	var stop time.Duration
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "Environment":
			for setting := range strings.FieldsSeq(value) {
				name, v, _ := strings.Cut(setting, "=")
				env[name] = strings.ReplaceAll(v, "%S", "/var/lib")
			}
		case "LoadCredential":
			name, _, _ := strings.Cut(value, ":")
			credentials["%d/"+name] = true
		case "TimeoutStopSec":
			stop, _ = time.ParseDuration(value)
		}
	}
	c := settings(t, env)
	if needs := c.drain + c.grace + releaseTime; c.store != "file:/var/lib/snowflake" || stop <= needs {
		t.Errorf("the store is %s; it has %v to stop, and may need %v", c.store, stop, needs)
	}
	for name, value := range env {
		if strings.HasPrefix(value, "%d/") && !credentials[value] {
			t.Errorf("%s=%s is no credential", name, value)
		}
	}
	assert.Equal(t, map[string]bool{"%d/" + filepath.Base(c.tokenFile): true,
		"%d/" + filepath.Base(c.cert): true, "%d/" + filepath.Base(c.key): true}, credentials)
	analyze := servertest.Program(t, "systemd", "systemd-analyze")
	unit := filepath.Join(t.TempDir(), "snowflaked.service")
	require.NoError(t, os.WriteFile(unit, bytes.ReplaceAll(b, []byte("/usr/local/bin/snowflaked"), []byte("/bin/true")), 0o600))
	out, err := exec.Command(analyze, "verify", unit).CombinedOutput()
	require.NoError(t, err, "%v\n%s", err, out)
	assert.LessOrEqual(t, len(out), 0, "%v\n%s", err, out)
}
