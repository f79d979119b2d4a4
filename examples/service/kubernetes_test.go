//go:build unix

package main

import (
	"fmt"
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

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/install/installed"
	"github.com/seed-5394e6b1/snowflake/internal/kubetest"
)

const manifests = "../../deploy/kubernetes/"

func manifest(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(manifests + file)
	require.NoError(t, err)
	return b
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
			assert.True(t, read[name], "%s: the program does not read %s", file, name)
		}
		assert.Equal(t, "kubernetes:", c.store, file)
		pod.Fits(t, c.drain, c.drain+c.grace+releaseTime)
		s := testService(t)
		for _, p := range []kubetest.Probe{pod.Containers[0].StartupProbe, pod.Containers[0].ReadinessProbe, pod.Containers[0].LivenessProbe} {
			r := httptest.NewRecorder()
			s.handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, p.HTTPGet.Path, nil))
			assert.Equal(t, http.StatusOK, r.Code, "%s: %s", file, p.HTTPGet.Path)
		}
	}
}

// With the rights of the manifests only, the program leases, rolls over to a second process under load, and releases.
func TestProgramRunsWithTheRightsOfItsManifests(t *testing.T) {
	depth.NeedFull(t, "a real kube-apiserver")
	server := kubetest.Start(t)
	for _, namespace := range []string{"shop", "ordinal"} {
		server.Namespace(t, namespace)
		require.NoError(t, server.Apply(namespace, manifest(t, "rbac.yaml")))
	}
	token := server.AccountToken(t, "shop", kubetest.PodOf(t, manifest(t, "deployment.yaml")).ServiceAccountName)
	t.Setenv("KUBECONFIG", kubeconfig(t, server, token, "shop"))
	store := made(t, "kubernetes:")
	a := start(t, nil, "-store", "kubernetes:", "-window", "3s", "-drain", "5s", "-owner", "orders-a")
	b := start(t, nil, "-store", "kubernetes:shop", "-window", "3s", "-drain", "0s", "-owner", "orders-b")
	require.NotEqual(t, b.worker, a.worker)
	rollOver(t, store, a, b)

	// The program has no other rights.
	for _, path := range []string{"/api/v1/namespaces/shop/secrets", "/apis/coordination.k8s.io/v1/namespaces/ordinal/leases"} {
		assert.ErrorContains(t, server.Ask(token, http.MethodGet, path, nil, nil), "403 Forbidden")
	}

	// If the program has no rights in a namespace, it says so and ends.
	out, err := command(nil, "-store", "kubernetes:ordinal", "-window", "3s").CombinedOutput()
	require.Error(t, err, "%v\n%s", err, out)
	require.Contains(t, string(out), "lease ordinal/snowflake", "%v\n%s", err, out)
	assert.Contains(t, string(out), "needs get, list, create, patch and delete", "%v\n%s", err, out)
}

// kubeconfig writes a kubeconfig with a pod's token, for use outside of the cluster.
func kubeconfig(t *testing.T, server *kubetest.Server, token, namespace string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority: %q}}]
users: [{name: pod, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: pod, namespace: %s}}]
current-context: test
`, server.Addr, server.CA, token, namespace), 0o600))
	return path
}

// The overlay of docs/kubernetes.md changes the namespace, the image and the replicas of the base, and the rights follow
// the namespace.
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
	out, err := exec.Command(kustomize, "build", filepath.Join(dir, "overlay")).CombinedOutput() // as kubectl apply -k does
	require.NoError(t, err, "%s", out)
	made := string(out)
	assert.Equal(t, 6, strings.Count(made, "\nkind: "), made)
	assert.Equal(t, 6+1, strings.Count(made, "\n  namespace: ids\n"), "each object, and whose rights: %s", made)
	assert.Contains(t, made, "\n  replicas: 5\n")
	assert.Contains(t, made, "image: registry.example/mirror/snowflaked:1.2.3\n")
	assert.Contains(t, made, "\nsubjects:\n- kind: ServiceAccount\n  name: snowflaked\n  namespace: ids\n")
}
