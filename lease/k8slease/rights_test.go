//go:build unix

package k8slease_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
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
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// life does what a process does, and what its successors do.
func life(ctx context.Context, s *k8slease.Store) error {
	if err := s.Create(ctx, 1); err != nil {
		return err
	}
	for range 20 { // so often that the history's object is updated too
		l, err := lease.Acquire(ctx, s, &lease.Options{Count: 1, Window: window})
		if err != nil {
			return err
		}
		if err := l.Release(ctx); err != nil {
			return err
		}
	}
	_, err := s.History(ctx, 0)
	return err
}

// The rights get, list, create and update in one namespace suffice, and each of them is needed.
func leastRights(t *testing.T, c *cluster) {
	depth.NeedFull(t, "a service account for each set of rights")
	all := []string{"get", "list", "create", "update"}
	for without := range len(all) + 1 {
		verbs := slices.Clone(all)
		space, missing := "all", ""
		if without < len(all) {
			missing = all[without]
			space = "no-" + missing
			verbs = slices.Delete(verbs, without, without+1)
		}
		cs, err := connect(c.Addr, c.account(t, space, verbs...))
		if err != nil {
			t.Fatal(err)
		}
		s, err := k8slease.New(cs, &k8slease.Options{Namespace: space})
		if err != nil {
			t.Fatal(err)
		}
		await(t, cs, space, verbs)
		if missing == "create" { // it does not wait for two hours first
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = s.Create(ctx, time.Hour)
		} else {
			err = life(t.Context(), s)
		}
		if missing == "" {
			if err != nil {
				t.Errorf("with %v: %v", verbs, err)
			}
			continue
		}
		refused(t, err, err, "lease "+space+"/snowflake", "cannot "+missing, "needs get, list, create and update on leases of coordination.k8s.io in namespace "+space)
		if !isForbidden(err) {
			t.Errorf("without %s: %v", missing, err)
		}
	}

	// The account has no rights in another namespace.
	cs, err := connect(c.Addr, c.account(t, "mine", all...))
	if err != nil {
		t.Fatal(err)
	}
	s, err := k8slease.New(cs, &k8slease.Options{Namespace: "all"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = lease.Acquire(t.Context(), s, nil)
	refused(t, err, err, "lease all/snowflake", "in namespace all")
	if !isForbidden(err) {
		t.Error(err)
	}
}

func isForbidden(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Reason == meta.StatusReasonForbidden
}

// await waits until the server has noticed a new role, which takes some milliseconds.
func await(t *testing.T, cs *kubernetes.Clientset, space string, verbs []string) {
	t.Helper()
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
