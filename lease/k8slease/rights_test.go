//go:build unix

package k8slease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

// account makes a namespace with a service account, which has these rights to leases there, and returns its token.
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
	token := c.AccountToken(t, namespace, "orders")
	asked := map[string]any{"spec": map[string]any{"namespace": namespace}}
	servertest.Await(t, func() error { // the server notices a new role some milliseconds later
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

// The rights suffice, each of them is needed, and they are those of one namespace.
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

// calls returns a call that takes each right, by the right. admin is the same store, with all rights.
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
