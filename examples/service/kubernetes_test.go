//go:build unix

package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/install/installed"
	"github.com/seed-5394e6b1/snowflake/internal/lab/kubetest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

const manifests = "../../deploy/kubernetes/"

func manifest(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(manifests + file)
	require.NoError(t, err)
	return b
}

// testService returns a service in this process.
func testService(t *testing.T) *service {
	t.Helper()
	l, err := lease.Acquire(t.Context(), lease.File(t.TempDir()), &lease.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { l.Release(context.Background()) })
	gen, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	s, err := newService(gen, l, func(context.Context, order) error { return nil })
	require.NoError(t, err)
	return s
}

// The program understands the settings of the manifests, and the pod has enough time to stop.
func TestManifestsFitTheProgram(t *testing.T) {
	for _, file := range []string{"deployment.yaml", "statefulset.yaml"} {
		pod := kubetest.PodOf(t, manifest(t, file))
		env := pod.Env()
		read := map[string]bool{}
		c, err := parse(pod.Containers[0].Args, func(name string) string {
			read[name] = true
			return env[name]
		})
		require.NoError(t, err, file)
		for name := range env {
			// GOMEMLIMIT is the Go runtime's.
			assert.True(t, read[name] || name == "GOMEMLIMIT", "%s: the program does not read %s", file, name)
		}
		assert.Equal(t, "kubernetes:", c.store, file)
		pod.Fits(t, c.drain, c.drain+c.grace+releaseTime)
		s := testService(t)
		for _, p := range []kubetest.Probe{
			pod.Containers[0].StartupProbe, pod.Containers[0].ReadinessProbe, pod.Containers[0].LivenessProbe,
		} {
			r := httptest.NewRecorder()
			s.handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, p.HTTPGet.Path, nil))
			assert.Equal(t, http.StatusOK, r.Code, "%s: %s", file, p.HTTPGet.Path)
		}
	}
}

// The overlay of docs/kubernetes.md changes the namespace, the image and the replicas of the base,
// and the rights follow the namespace.
func TestOverlayOfTheBase(t *testing.T) {
	kustomize := installed.Need(t, installed.Kustomize)
	page, err := os.ReadFile("../../docs/kubernetes.md")
	require.NoError(t, err)
	_, overlay, _ := strings.Cut(string(page), "```yaml\n")
	overlay, _, _ = strings.Cut(overlay, "```\n")
	overlay = regexp.MustCompile(`https://\S+//deploy/kubernetes\?\S+`).ReplaceAllString(overlay, "../base")
	require.Contains(t, overlay, "../base")
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "base"), os.DirFS(manifests)))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "overlay"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay", "kustomization.yaml"), []byte(overlay), 0o600))
	// As kubectl apply -k does.
	out, err := exec.Command(kustomize, "build", filepath.Join(dir, "overlay")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	made := string(out)
	assert.Equal(t, 8, strings.Count(made, "\nkind: "), made)
	assert.Equal(t, 8+1, strings.Count(made, "\n  namespace: ids\n"), "each object, and whose rights: %s", made)
	assert.Contains(t, made, "\n  replicas: 5\n")
	assert.Contains(t, made, "image: registry.example/mirror/snowflaked:1.2.3\n")
	assert.Contains(t, made, "\nsubjects:\n- kind: ServiceAccount\n  name: snowflaked\n  namespace: ids\n")
}
