//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/kubetest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

const manifests = "../../deploy/kubernetes/"

// objects reads a manifest.
func objects(t *testing.T, file string) (all []*unstructured.Unstructured) {
	t.Helper()
	b, err := os.ReadFile(manifests + file)
	require.NoError(t, err)
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096); ; {
		o := new(unstructured.Unstructured)
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, o)
	}
}

// apply does what kubectl apply --server-side does: the server checks each field.
func apply(t *testing.T, config *rest.Config, namespace string, all ...*unstructured.Unstructured) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	for _, o := range all {
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		b, err := json.Marshal(o)
		if err == nil {
			_, err = client.Resource(resource).Namespace(namespace).Patch(t.Context(), o.GetName(), types.ApplyPatchType, b,
				metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict})
		}
		if err != nil {
			t.Errorf("%s, %s %s: %v", namespace, o.GetKind(), o.GetName(), err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// template returns the pod template of a manifest.
func template(t *testing.T, file string) core.PodTemplateSpec {
	t.Helper()
	for _, o := range objects(t, file) {
		var pod core.PodTemplateSpec
		var err error
		switch o.GetKind() {
		case "Deployment":
			var d apps.Deployment
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d)
			pod = d.Spec.Template
		case "StatefulSet":
			var s apps.StatefulSet
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s)
			pod = s.Spec.Template
		default:
			continue
		}
		require.NoError(t, err)
		return pod
	}
	t.Fatalf("%s has no pods", file)
	return core.PodTemplateSpec{}
}

// The program understands the settings of the manifests, and the pod has enough time to stop.
func TestManifestsFitTheProgram(t *testing.T) {
	for _, file := range []string{"deployment.yaml", "statefulset.yaml"} {
		pod := template(t, file).Spec
		container := pod.Containers[0]
		env := map[string]string{}
		for _, e := range container.Env {
			env[e.Name] = e.Value
		}
		read := map[string]bool{}
		c, err := parse(container.Args, func(name string) string {
			read[name] = true
			return env[name]
		})
		require.NoError(t, err, "%s: %v", file, err)
		for name := range env {
			assert.True(t, read[name], "%s: the program does not read %s", file, name)
		}
		assert.Equal(t, "kubernetes:", c.store, "%s: the store is %s", file, c.store)
		if has, needs := time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second, c.drain+c.grace+releaseTime; has <= needs {
			t.Errorf("%s: a pod has %v to stop, and may need %v", file, has, needs)
		}
		probes := []*core.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe}
		if first := time.Duration(probes[0].PeriodSeconds*probes[0].FailureThreshold) * time.Second; first <= lease.MaxWindow+70*time.Second {
			t.Errorf("%s: the first pod has %v to start, and may need %v and a minute", file, first, lease.MaxWindow)
		}
		if unready := time.Duration(probes[1].PeriodSeconds*probes[1].FailureThreshold) * time.Second; unready >= c.drain {
			t.Errorf("%s: a pod is known not to be ready after %v, and goes on for %v", file, unready, c.drain)
		}
		s := testService(t)
		for _, p := range probes {
			r := httptest.NewRecorder()
			s.handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, p.HTTPGet.Path, nil))
			assert.Equal(t, http.StatusOK, r.Code, "%s: %s answers %d", file, p.HTTPGet.Path, r.Code)
		}
	}
}

// The manifests are applied to a real API server. With their rights only, the program leases, rolls over to a
// second process under load, and releases.
func TestProgramRunsWithTheRightsOfItsManifests(t *testing.T) {
	depth.NeedFull(t, "a real kube-apiserver")
	server := kubetest.Start(t)
	admin := &rest.Config{Host: "https://" + server.Addr, BearerToken: kubetest.Token, QPS: -1}
	admin.Insecure = true
	clientset, err := kubernetes.NewForConfig(admin)
	require.NoError(t, err)
	for namespace, all := range map[string][]*unstructured.Unstructured{
		"shop":    append(objects(t, "rbac.yaml"), objects(t, "deployment.yaml")...),
		"ordinal": append(objects(t, "rbac.yaml"), objects(t, "statefulset.yaml")...),
		"ids":     kustomized(t),
	} {
		_, err := clientset.CoreV1().Namespaces().Create(t.Context(), &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		require.NoError(t, err)
		apply(t, admin, namespace, all...)
		apply(t, admin, namespace, all...) // again, as after a change
	}
	wrong := objects(t, "deployment.yaml")[0]
	wrong.Object["spec"].(map[string]any)["replicsa"] = int64(1)
	if b, err := json.Marshal(wrong); err != nil {
		t.Fatal(err)
	} else if _, err := clientset.AppsV1().Deployments("shop").Patch(t.Context(), "orders", types.ApplyPatchType, b,
		metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict}); err == nil {
		t.Error("the test itself is wrong: the server takes any field")
	}

	account := template(t, "deployment.yaml").Spec.ServiceAccountName
	token, err := clientset.CoreV1().ServiceAccounts("shop").CreateToken(t.Context(), account, new(authentication.TokenRequest), metav1.CreateOptions{})
	require.NoError(t, err)
	file := kubeconfig(t, server, token.Status.Token, "shop")
	t.Setenv("KUBECONFIG", file)
	store := made(t, "kubernetes:")
	a := start(t, nil, "-store", "kubernetes:", "-window", "3s", "-drain", "5s", "-owner", "orders-a")
	b := start(t, nil, "-store", "kubernetes:shop", "-window", "3s", "-drain", "0s", "-owner", "orders-b")
	require.NotEqual(t, b.worker, a.worker)
	rollOver(t, store, a, b)

	// The program has no other rights.
	limited, err := clientcmd.BuildConfigFromFlags("", file)
	require.NoError(t, err)
	pod, err := kubernetes.NewForConfig(limited)
	require.NoError(t, err)
	_, err1 := pod.CoreV1().Secrets("shop").List(t.Context(), metav1.ListOptions{})
	_, err2 := pod.CoordinationV1().Leases("ordinal").List(t.Context(), metav1.ListOptions{})
	for what, err := range map[string]error{"list secrets": err1, "list another namespace's leases": err2} {
		assert.True(t, apierrors.IsForbidden(err), "it can %s: %v", what, err)
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
	c := api.NewConfig()
	c.Clusters["test"] = &api.Cluster{Server: "https://" + server.Addr, CertificateAuthority: server.CA}
	c.AuthInfos["pod"] = &api.AuthInfo{Token: token}
	c.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "pod", Namespace: namespace}
	c.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*c, path))
	return path
}
