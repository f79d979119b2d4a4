// Package k8slease leases worker IDs from Kubernetes: they are in Lease objects of the API server,
// which each pod can reach.
//
//	store, err := k8slease.InCluster(nil)
//	...
//	l, err := lease.Acquire(ctx, store, nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// Outside a pod, pass [New] a config, for example of package tools/clientcmd of client-go.
//
// The pod's service account needs only the rights get, list, create, patch and delete on leases of
// the group coordination.k8s.io in one namespace: see deploy/kubernetes/rbac.yaml. If a right or
// the namespace is missing, the error names the object and the remedy. docs/kubernetes.md helps
// with the choice of a store, and has a complete service.
//
// # Storage
//
// An entry is a coordination.k8s.io/v1 Lease. Its name is the prefix and the key, with two hyphens
// for each slash: snowflake--a--7 is the entry of the key a/7. The annotation snowflake-ids/value
// has the value, and snowflake-ids/version the version, a random text. (An object's resourceVersion
// may repeat after a restore of etcd.) The spec and the labels are for people: kubectl get leases
// -l snowflake-ids/kind=worker shows the holders of worker IDs. The spec is not read.
//
// A list reads the Leases of the whole namespace, and selects entries by name. The API server
// leaves out Leases whose label snowflake-ids/kind has the value of another kind of entry. Removing
// the label is safe, and only makes lists longer; do not change its value to that of another kind.
// Use a namespace with few other Leases: kube-node-lease, for example, has one for each node.
//
// A renewal is one JSON patch, which tests and replaces the version.
//
// Clients cannot read the API server's clock exactly, so a node's clock that is ahead when a pod
// acquires a worker ID is not detected.
//
// # Renewals
//
// Each holder sends three renewals in a window. With [DefaultWindow], 1,000 pods send 30 renewals a
// second in total, each a patch of about 1 kB. If a pod ends without Release, its worker ID stays
// unused for up to 100 s, so have a spare worker ID for each pod that may crash in that time. After
// Release, it is free at once.
//
// Measured with an API server (1.35.4) and etcd (3.4) on two cores, together with their clients and
// other work (go test -run '^$' -bench . -benchtime 1x):
//
//   - 1,024 holders with the default window send 31 renewals a second, which take 11% of a core in
//     the API server and etcd, including their idle load. None failed. With 256 holders it is 3%.
//   - Acquiring a worker ID takes 16 ms for one client (median), 0.4 s for each of 50 concurrent
//     clients, and 1.5 s for each of 200.
//   - Windows of 3 s are too short: with 256 holders they take 40 to 60% of a core, and with 1,024
//     holders renewals fail.
//
// # Hazards
//
// HAZARD: a restore of the cluster's etcd from a backup restores the backup's bounds, so IDs may
// repeat. Stop all holders before you restore. Start holders again only when the clock is past the
// last bound, a window after the last holder stopped.
//
// HAZARD: all processes of a fleet must use one cluster, one namespace and one prefix. If they use
// two, two processes have the same worker ID. For several clusters, use a store that they share, or
// give each cluster its own datacenter in the layout.
package k8slease

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	objects "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"

	"github.com/seed-5394e6b1/snowflake/internal/randtext"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// DefaultWindow is the window of leases whose Options.Window is 0. With it, 1,000 holders send 30
// renewals a second in total. It is longer than those of other stores, because the whole cluster
// shares the API server, and because its upgrades take longer.
const DefaultWindow = 100 * time.Second

// Options holds the settings of [New] and [InCluster]. Nil and the zero value mean the defaults.
type Options struct {
	// Namespace is the namespace of the objects. All processes that share worker IDs must use the
	// same one. InCluster's default is the pod's namespace; New has none.
	Namespace string

	// Prefix is the prefix of all objects' names: at most 40 lower-case letters, digits and single
	// hyphens, with a letter first and no hyphen last. The default is "snowflake".
	Prefix string
}

// Store is a [driver.Store] in a Kubernetes cluster. It may be used by any number of goroutines and
// leases.
type Store struct {
	config    *rest.Config
	namespace string
	prefix    string

	client atomic.Pointer[client]
}

// client is a client for coordination.k8s.io/v1. client-go rereads files with tokens and clients'
// certificates but, before 0.36, not the config's CAFile
// (https://github.com/kubernetes/kubernetes/issues/119483).
type client struct {
	*rest.RESTClient
	ca []byte // the content of CAFile
}

var _ driver.Windower = (*Store)(nil)

// namespaceFile has the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// InCluster returns a store in this pod's cluster, with the rights of the pod's service account. It
// sends no request. If this process is not in a pod, the error matches [rest.ErrNotInCluster].
// Other errors, and those of the store, are described at [New].
func InCluster(opts *Options) (*Store, error) {
	config, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, fmt.Errorf("k8slease: this process is not in a pod: %w", err)
	case err != nil:
		return nil, fmt.Errorf("k8slease: the pod has no token of a service account: %w: is automountServiceAccountToken false?", err)
	}
	o := *cmp.Or(opts, new(Options))
	if o.Namespace == "" {
		b, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, fmt.Errorf("k8slease: %w: Namespace is empty, and the pod's is not known: %w", driver.ErrInvalidOptions, err)
		}
		o.Namespace = strings.TrimSpace(string(b))
	}
	return New(config, &o)
}

var (
	goodPrefix    = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	goodNamespace = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// New returns a store in the cluster of a config, which it does not change. It sends no request. If
// the config is nil or an option is invalid, the error matches [driver.ErrInvalidOptions].
//
// The store uses HTTP/1.1, so that a connection that hangs is closed with its request, together
// with the idle ones. It has no limit of requests a second (QPS), which would delay renewals. If
// the API server's certificate is not trusted, the store reads the config's CAFile again.
//
// The store's errors name the object, and match functions of k8s.io/apimachinery's package errors,
// such as IsForbidden. If a Lease with a name that the store needs was not created by this package,
// the error matches [driver.ErrBadRecord]: delete the Lease. (If it has only lost its annotation,
// and has the label snowflake-ids/store, package lease may replace it.) The error matches
// [driver.ErrAway] if the status is 429, or 500 or more, and if a right or the namespace is
// missing, or a certificate is not trusted, because an operator can mend that while Acquire waits.
func New(config *rest.Config, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, new(Options))
	o.Prefix = cmp.Or(o.Prefix, "snowflake")
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("k8slease: %w: %s", driver.ErrInvalidOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case config == nil:
		return nil, invalid("the config is nil")
	case !goodNamespace.MatchString(o.Namespace):
		return nil, invalid("Namespace %q is not the name of a namespace", o.Namespace)
	case !goodPrefix.MatchString(o.Prefix) || len(o.Prefix) > 40:
		return nil, invalid("Prefix %q is not 1 to 40 lower-case letters, digits and single hyphens, "+
			"with a letter first and no hyphen last", o.Prefix)
	}
	// The scheme has only one group. With client-go's typed clients, which have all groups, a
	// program would be three times as large.
	scheme := runtime.NewScheme()
	if err := coordination.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("k8slease: %w", err)
	}
	config = rest.CopyConfig(config)
	config.NextProtos, config.QPS = []string{"http/1.1"}, -1
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent())
	group := coordination.SchemeGroupVersion
	config.APIPath, config.GroupVersion = "/apis", &group
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	s := &Store{config: config, namespace: o.Namespace, prefix: o.Prefix}
	if err := s.connect(); err != nil {
		return nil, fmt.Errorf("k8slease: %w", err)
	}
	return s, nil
}

// connect makes a client, unless there is one with CAFile's content.
func (s *Store) connect() error {
	var ca []byte
	if s.config.CAFile != "" && len(s.config.CAData) == 0 {
		ca, _ = os.ReadFile(s.config.CAFile) // RESTClientFor returns the error
	}
	former := s.client.Load()
	if former != nil && bytes.Equal(former.ca, ca) {
		return nil
	}
	made, err := rest.RESTClientFor(s.config)
	if err == nil {
		s.client.Store(&client{made, ca})
	}
	return err
}

// closeIdle closes the idle connections, after a request has timed out. The network may have lost
// them, too, and each would make a request time out.
func (s *Store) closeIdle() {
	for t := s.client.Load().Client.Transport; t != nil; {
		if c, ok := t.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
			return
		}
		w, ok := t.(utilnet.RoundTripperWrapper)
		if !ok {
			return
		}
		t = w.WrappedRoundTripper()
	}
}

// leases returns a request for Leases of the namespace.
func (s *Store) leases(verb string) *rest.Request {
	return s.client.Load().Verb(verb).Namespace(s.namespace).Resource("leases")
}

// DefaultWindow returns [DefaultWindow].
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

const (
	storeLabel        = "snowflake-ids/store" // the prefix
	kindLabel         = "snowflake-ids/kind"  // see kind
	versionAnnotation = "snowflake-ids/version"
	valueAnnotation   = "snowflake-ids/value"
)

// noLog returns a context in which client-go does not log, because it logs to standard error.
func noLog(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// name returns the name of a key's object. Keys do not contain two hyphens in a row.
func (s *Store) name(key string) string { return s.prefix + "--" + strings.ReplaceAll(key, "/", "--") }

func (s *Store) key(o *coordination.Lease) string {
	return strings.ReplaceAll(strings.TrimPrefix(o.Name, s.prefix+"--"), "--", "/")
}

// kinds are the kinds of package lease's entries. The list of a kind leaves out the others.
var kinds = []string{"history", "mark", "owner", "store", "worker"}

// kind returns the first part of a key as the value of a label, which has at most 63 characters.
func kind(key string) string {
	first, _, _ := strings.Cut(key, "/")
	return strings.TrimRight(first[:min(len(first), 63)], "-.")
}

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	_, e, err := s.get(ctx, key)
	return e, err
}

func (s *Store) get(ctx context.Context, key string) (*coordination.Lease, driver.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.Entry{}, err
	}
	ctx = noLog(ctx)
	o := new(coordination.Lease)
	err := s.leases(http.MethodGet).Name(s.name(key)).Do(ctx).Into(o)
	if apierrors.IsNotFound(err) {
		return nil, driver.Entry{Key: key}, nil
	}
	if err != nil {
		return nil, driver.Entry{}, s.explain(s.name(key), err)
	}
	e, err := s.entry(o)
	return o, e, err
}

// List implements [driver.Store].
func (s *Store) List(ctx context.Context, prefix string) (all []driver.Entry, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var options meta.ListOptions
	// Include objects without labels, in case they were removed.
	if strings.Contains(prefix, "/") {
		others := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == kind(prefix) })
		options.LabelSelector = kindLabel + " notin (" + strings.Join(others, ",") + ")"
	}
	ctx = noLog(ctx)
	pages := pager.New(func(ctx context.Context, opts meta.ListOptions) (runtime.Object, error) {
		page := new(coordination.LeaseList)
		return page, s.leases(http.MethodGet).SpecificallyVersionedParams(&opts, meta.ParameterCodec, meta.Unversioned).Do(ctx).Into(page)
	})
	list, _, err := pages.List(ctx, options)
	if err != nil {
		return nil, s.explain(s.name(prefix)+"*", err)
	}
	err = objects.EachListItem(list, func(o runtime.Object) error {
		l := o.(*coordination.Lease)
		if !strings.HasPrefix(l.Name, s.prefix+"--") || !strings.HasPrefix(s.key(l), prefix) {
			return nil
		}
		e, _ := s.entry(l) // include unreadable entries
		e.Version = cmp.Or(e.Version, "unreadable")
		all = append(all, e)
		return nil
	})
	return all, err
}

// unreadable is the prefix of the version of an object that this package created and that lost its
// annotation. The rest is the object's UID, a slash and its resourceVersion.
const unreadable = "unreadable-"

// entry returns the entry of an object. If the entry cannot be read, it has no value, and the error
// matches driver.ErrBadRecord. If this package did not create the object, the entry has no version
// either, so it is not changed.
func (s *Store) entry(o *coordination.Lease) (driver.Entry, error) {
	e := driver.Entry{Key: s.key(o), Version: o.Annotations[versionAnnotation]}
	switch {
	case e.Version != "":
		e.Value = []byte(o.Annotations[valueAnnotation])
		return e, nil
	case o.Labels[storeLabel] == s.prefix:
		e.Version = unreadable + string(o.UID) + "/" + o.ResourceVersion
		return e, fmt.Errorf("k8slease: %w: %s has lost its annotation %s", driver.ErrBadRecord,
			s.place(o.Name), versionAnnotation)
	}
	return e, fmt.Errorf("k8slease: %w: %s was not created by this package, or has lost its annotation %s and its label %s: "+
		"delete it. Change Options.Prefix only while no process has a worker ID: otherwise IDs may repeat",
		driver.ErrBadRecord, s.place(o.Name), versionAnnotation, storeLabel)
}

// Put implements [driver.Store].
func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	if err := ctx.Err(); err != nil {
		return driver.Entry{}, err
	}
	ctx = noLog(ctx)
	e := driver.Entry{Key: key, Version: randtext.New(), Value: value}
	var err error
	if old == "" {
		err = s.leases(http.MethodPost).Body(&coordination.Lease{
			ObjectMeta: meta.ObjectMeta{
				Name:        s.name(key),
				Labels:      map[string]string{storeLabel: s.prefix, kindLabel: kind(key)},
				Annotations: map[string]string{versionAnnotation: e.Version, valueAnnotation: string(value)},
			},
			Spec: spec(value),
		}).Do(ctx).Error()
	} else {
		form, body := patch(old, e)
		err = s.leases(http.MethodPatch).SetHeader("Content-Type", string(form)).Name(s.name(key)).Body(body).Do(ctx).Error()
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return s.refused(ctx, e, old, err)
	}
	return e, s.explain(s.name(key), err)
}

// patch returns a patch that stores e if the entry's version is old, and the patch's type.
func patch(old string, e driver.Entry) (types.PatchType, []byte) {
	if of, ok := strings.CutPrefix(old, unreadable); ok {
		uid, version, _ := strings.Cut(of, "/")
		text, _ := json.Marshal(map[string]any{
			"metadata": map[string]any{
				"uid": uid, "resourceVersion": version,
				"annotations": map[string]string{versionAnnotation: e.Version, valueAnnotation: string(e.Value)},
			},
			"spec": spec(e.Value),
		})
		return types.MergePatchType, text
	}
	type op struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	at := func(annotation string) string {
		return "/metadata/annotations/" + strings.ReplaceAll(annotation, "/", "~1")
	}
	text, _ := json.Marshal([]op{
		{"test", at(versionAnnotation), old},
		{"add", at(versionAnnotation), e.Version},
		{"add", at(valueAnnotation), string(e.Value)},
		{"add", "/spec", spec(e.Value)},
	})
	return types.JSONPatchType, text
}

// refused returns Put's results if the API server refused e for a reason that may be a conflict. e
// may have been stored, if client-go sent the request twice. Copies of a cloned machine may draw
// the same version, but for another value.
func (s *Store) refused(ctx context.Context, e driver.Entry, old string, why error) (driver.Entry, error) {
	is, err := s.Get(ctx, e.Key)
	switch {
	case err != nil && is.Version == "": // with a version, the entry exists but cannot be read
		return e, err
	case is.Version == e.Version && string(is.Value) == string(e.Value):
		return e, nil
	case is.Version == old:
		return e, s.explain(s.name(e.Key), why)
	}
	return e, s.conflict(e.Key)
}

func (s *Store) conflict(key string) error {
	return fmt.Errorf("k8slease: %s: %w", s.place(s.name(key)), driver.ErrConflict)
}

// Delete implements [driver.Store]. Its preconditions are the UID and the resourceVersion of the
// object that it has read, because they cannot be the entry's version.
func (s *Store) Delete(ctx context.Context, key, old string) error {
	for {
		o, e, err := s.get(ctx, key)
		if err != nil && e.Version == "" { // with a version, the entry exists but cannot be read
			return err
		}
		if o == nil || e.Version != old {
			return s.conflict(key)
		}
		seen := meta.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion}
		err = s.leases(http.MethodDelete).Name(o.Name).Body(&meta.DeleteOptions{Preconditions: &seen}).Do(noLog(ctx)).Error()
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return s.explain(o.Name, err)
		} // the change may have been to a label only
	}
}

// spec returns the fields that kubectl shows: the owner in value, and the time.
func spec(value []byte) coordination.LeaseSpec {
	now := meta.NowMicro()
	var record struct{ Owner string }
	if json.Unmarshal(value, &record) != nil || record.Owner == "" {
		return coordination.LeaseSpec{RenewTime: &now}
	}
	return coordination.LeaseSpec{RenewTime: &now, HolderIdentity: &record.Owner}
}

// place returns the name of an object with its namespace.
func (s *Store) place(name string) string { return "lease " + s.namespace + "/" + name }

// namespaceTerminating is copied from k8s.io/api/core/v1, which is a large package.
const namespaceTerminating meta.CauseType = "NamespaceTerminating"

// explain adds the object and, for common errors, advice to an error, and makes it match
// driver.ErrAway if it may pass.
func (s *Store) explain(name string, err error) error {
	if err == nil {
		return nil
	}
	advice, passes := "", true
	status, untrusted := apierrors.APIStatus(nil), new(tls.CertificateVerificationError)
	switch {
	case apierrors.HasStatusCause(err, namespaceTerminating):
		advice = ": namespace " + s.namespace + " is being deleted; create it again afterwards"
	case apierrors.IsForbidden(err):
		advice = ": the service account needs get, list, create, patch and delete on leases of coordination.k8s.io in namespace " + s.namespace +
			"; deploy/kubernetes/rbac.yaml has a Role and a RoleBinding"
	case apierrors.IsUnauthorized(err):
		advice, passes = ": the API server does not know the token: it may have expired, or be of another cluster", false
	case apierrors.IsNotFound(err):
		advice = ": if there is no namespace " + s.namespace + ", create it: kubectl create namespace " + s.namespace
	case errors.As(err, &untrusted):
		if failed := s.connect(); failed != nil {
			err = fmt.Errorf("%w: %w", err, failed)
		}
	case errors.Is(err, context.DeadlineExceeded):
		s.closeIdle()
		passes = false // package lease retries after this error, too
	default:
		passes = errors.As(err, &status) && (status.Status().Code >= 500 || status.Status().Code == http.StatusTooManyRequests) ||
			// net/http does not export this error.
			strings.Contains(err.Error(), "http: server closed idle connection") ||
			// The API server does not accept the client's certificate.
			strings.Contains(err.Error(), "remote error: tls: ")
	}
	if passes {
		err = fmt.Errorf("%w: %w", driver.ErrAway, err)
	}
	return fmt.Errorf("k8slease: %s: %w%s", s.place(name), err, advice)
}
