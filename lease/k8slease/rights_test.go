//go:build unix && go1.25

package k8slease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-5394e6b1/snowflake/internal/lab/kubetest"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

// account creates a namespace with a service account that has these rights to leases, and returns
// its token.
func (c *cluster) account(t *testing.T, namespace string, verbs ...string) string {
	t.Helper()
	c.Namespace(t, namespace)
	servertest.Do(t, c.Apply(namespace, fmt.Appendf(nil, `
apiVersion: v1
kind: ServiceAccount
metadata:
  name: orders
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: orders
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [%s]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: orders
subjects: [{kind: ServiceAccount, name: orders}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: orders}
`, strings.Join(verbs, ", "))))
	return c.token(t, namespace, "orders", verbs)
}

// token returns the token of a service account, after the server has seen its rights to leases.
func (c *cluster) token(t *testing.T, namespace, account string, verbs []string) string {
	t.Helper()
	token := c.AccountToken(t, namespace, account)
	asked := map[string]any{"spec": map[string]any{"namespace": namespace}}
	servertest.Await(t, func() error {
		var has struct {
			Status struct {
				ResourceRules []struct{ Verbs, Resources []string }
			}
		}
		if err := c.Ask(token, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", asked, &has); err != nil {
			return err
		}
		for _, rule := range has.Status.ResourceRules {
			if slices.Contains(rule.Resources, "leases") && slices.Equal(rule.Verbs, verbs) {
				return nil
			}
		}
		return fmt.Errorf("the rights are %v", has.Status)
	})
	return token
}

// rights are the rights that a process needs.
var rights = []string{"get", "list", "create", "patch", "delete"}

// The rights are sufficient and necessary, and needed in one namespace only.
func leastRights(t *testing.T, c *cluster) {
	for without := range len(rights) + 1 {
		verbs, space, missing := slices.Clone(rights), "all", ""
		if without < len(rights) {
			missing = rights[without]
			space = "no-" + missing
			verbs = slices.Delete(verbs, without, without+1)
		}
		account := config(c.Addr, c.account(t, space, verbs...))
		s := servertest.Must(k8slease.New(account, &k8slease.Options{Namespace: space}))(t)
		for right, call := range calls(s, open(t, c.Addr, &k8slease.Options{Namespace: space})) {
			err := call(t.Context())
			if right != missing {
				if err != nil && (missing != "get" || right != "delete") { // to delete takes both
					t.Errorf("%s with %v: %v", right, verbs, err)
				}
				continue
			}
			refused(t, err, err, "lease "+space+"/snowflake--", "cannot "+missing,
				"needs get, list, create, patch and delete on leases of coordination.k8s.io in namespace "+space)
			if !isForbidden(err) {
				t.Errorf("without %s: %v", missing, err)
			}
		}
	}

	s := servertest.Must(k8slease.New(config(c.Addr, c.account(t, "mine", rights...)), &k8slease.Options{Namespace: "all"}))(t)
	_, err := s.Get(t.Context(), "key")
	refused(t, err, err, "lease all/snowflake--key", "in namespace all")
	assert.True(t, isForbidden(err))
}

// calls maps each right to a call that needs it. admin is the same store, with all rights.
func calls(s, admin *k8slease.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"get":    func(ctx context.Context) error { _, err := s.Get(ctx, "key"); return err },
		"list":   func(ctx context.Context) error { _, err := s.List(ctx, ""); return err },
		"create": func(ctx context.Context) error { _, err := s.Put(ctx, "other", "", nil); return err },
		"patch": func(ctx context.Context) error {
			e, err := admin.Put(ctx, "patched", "", nil)
			if err == nil {
				_, err = s.Put(ctx, "patched", e.Version, nil)
			}
			return err
		},
		"delete": func(ctx context.Context) error {
			e, err := admin.Put(ctx, "deleted", "", nil)
			if err == nil {
				err = s.Delete(ctx, "deleted", e.Version)
			}
			return err
		},
	}
}

func isForbidden(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Reason == meta.StatusReasonForbidden
}

// The server accepts each field of the manifests, and their pods have the rights.
func manifests(t *testing.T, c *cluster) {
	const deploy = "../../deploy/kubernetes/"
	if _, err := os.Stat(deploy); err != nil && os.Getenv("CI") == "" {
		t.Skip("the module is not in a clone")
	}
	for namespace, files := range map[string][]string{
		"deployment":  {"rbac.yaml", "deployment.yaml"},
		"statefulset": {"rbac.yaml", "statefulset.yaml"},
		"snowflaked":  {"snowflaked.yaml"},
	} {
		c.Namespace(t, namespace)
		var text []byte
		for _, file := range files {
			text = servertest.Must(os.ReadFile(deploy + file))(t)
			assert.NoError(t, c.Apply(namespace, text), file)
			assert.NoError(t, c.Apply(namespace, text), "%s, again, as after a change", file)
			wrong := bytes.Replace(text, []byte("metadata:"), []byte("wrong: 1\nmetadata:"), 1)
			assert.ErrorContains(t, c.Apply(namespace, wrong), "field not declared in schema", file)
		}
		account := c.token(t, namespace, kubetest.PodOf(t, text).ServiceAccountName, rights)
		s := servertest.Must(k8slease.New(config(c.Addr, account), &k8slease.Options{Namespace: namespace}))(t)
		for right, call := range calls(s, s) {
			assert.NoError(t, call(t.Context()), "%s with the rights of %s", right, files)
		}
		err := c.Ask(account, "GET", "/api/v1/namespaces/"+namespace+"/secrets", nil, nil)
		assert.ErrorContains(t, err, "403 Forbidden", "with the rights of %s", files)
	}
}
