//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// overlay returns the overlay of docs/kubernetes.md, whose base is in the folder beside it.
func overlay(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/kubernetes.md")
	require.NoError(t, err)
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```\n")
	block = regexp.MustCompile(`https://\S+//deploy/kubernetes\?\S+`).ReplaceAllString(block, "../base")
	require.Contains(t, block, "../base")
	return block
}

// kustomized returns the objects that kubectl apply -k would apply of the overlay.
func kustomized(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	base, err := filepath.Abs(manifests)
	require.NoError(t, err)
	disk, memory := filesys.MakeFsOnDisk(), filesys.MakeFsInMemory()
	for _, name := range []string{"kustomization.yaml", "snowflaked.yaml"} {
		b, err := disk.ReadFile(filepath.Join(base, name))
		if err == nil {
			err = memory.WriteFile("base/"+name, b)
		}
		require.NoError(t, err)
	}
	require.NoError(t, memory.WriteFile("overlay/kustomization.yaml", []byte(overlay(t))))
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, "overlay")
	require.NoError(t, err)
	for _, r := range made.Resources() {
		fields, err := r.Map()
		require.NoError(t, err)
		all = append(all, &unstructured.Unstructured{Object: fields})
	}
	return all
}

// An overlay changes the namespace, the image and the replicas of the base, and the rights follow the namespace.
func TestOverlayOfTheBase(t *testing.T) {
	kinds := map[string]*unstructured.Unstructured{}
	for _, o := range kustomized(t) {
		kinds[o.GetKind()] = o
		if o.GetNamespace() != "ids" {
			t.Errorf("%s %s is in the namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
		}
	}
	require.Len(t, kinds, 6)
	var d apps.Deployment
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(kinds["Deployment"].Object, &d))
	if image := d.Spec.Template.Spec.Containers[0].Image; image != "registry.example/mirror/snowflaked:1.2.3" || *d.Spec.Replicas != 5 {
		t.Errorf("%d pods have the image %s", *d.Spec.Replicas, image)
	}
	subjects, _, err := unstructured.NestedSlice(kinds["RoleBinding"].Object, "subjects")
	if err != nil || subjects[0].(map[string]any)["namespace"] != "ids" {
		t.Errorf("the rights are for %v: %v", subjects, err)
	}
}
