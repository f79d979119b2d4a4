//go:build unix

package k8slease_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

// account makes a service account with these rights to leases in its namespace, and returns its token.
func (c *cluster) account(t *testing.T, namespaceName string, verbs ...string) string {
	t.Helper()
	ctx := t.Context()
	namespace(t, c.Addr, namespaceName)
	admin := clientset(t, c.Addr)
	const name = "orders"
	_, err1 := admin.CoreV1().ServiceAccounts(namespaceName).Create(ctx, &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: name}}, meta.CreateOptions{})
	_, err2 := admin.RbacV1().Roles(namespaceName).Create(ctx, &rbac.Role{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Rules:      []rbac.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs}},
	}, meta.CreateOptions{})
	_, err3 := admin.RbacV1().RoleBindings(namespaceName).Create(ctx, &rbac.RoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Subjects:   []rbac.Subject{{Kind: "ServiceAccount", Name: name, Namespace: namespaceName}},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: name},
	}, meta.CreateOptions{})
	token, err4 := admin.CoreV1().ServiceAccounts(namespaceName).CreateToken(ctx, name, new(authentication.TokenRequest), meta.CreateOptions{})
	servertest.Do(t, errors.Join(err1, err2, err3, err4))
	return token.Status.Token
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
		await(t, account, space, verbs)
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

// await waits until the server has noticed a new role, which takes some milliseconds.
func await(t *testing.T, account *rest.Config, space string, verbs []string) {
	t.Helper()
	cs := servertest.Must(kubernetes.NewForConfig(account))(t)
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		rules, err := cs.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorization.SelfSubjectRulesReview{
			Spec: authorization.SelfSubjectRulesReviewSpec{Namespace: space},
		}, meta.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range rules.Status.ResourceRules {
			if slices.Contains(rule.Resources, "leases") && slices.Equal(rule.Verbs, verbs) {
				return
			}
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("the rights are %v", rules.Status)
		}
	}
}
