// Package k8slease keeps the worker IDs of a fleet in Kubernetes, for package lease: in
// Lease objects of its API server, which each pod can reach.
//
//	store, err := k8slease.InCluster(nil)
//	...
//	l, err := lease.Acquire(ctx, store, nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// Outside of a pod, [New] takes a config, such as package tools/clientcmd of client-go makes.
//
// The pod's service account needs the rights get, list, create, patch and delete on leases of the
// group coordination.k8s.io in one namespace, and nothing else: deploy/kubernetes/rbac.yaml gives
// them. If a right or the namespace is missing, the error names the object and says what to do.
// docs/kubernetes.md says when to choose this store, and has a whole service.
//
// # What is stored
//
// An entry is a coordination.k8s.io/v1 Lease. Its name is the prefix and the key, with two hyphens
// for each slash: snowflake--a--7 is the entry of the key a/7. The annotation snowflake-ids/value
// has the value, and snowflake-ids/version the version, a random text. (An object's resourceVersion
// may come again after etcd was restored from a backup.) The spec and the labels are for people:
// kubectl get leases -l snowflake-ids/kind=worker shows who holds a worker ID. Nothing reads the
// spec.
//
// A list reads the Leases of the whole namespace, and takes the entries by their names. The API
// server leaves out the Leases whose label snowflake-ids/kind has the value of another kind of
// entry. If somebody removes labels, a list is larger, and misses nothing. The label's value must
// not be changed to that of another kind. Use a namespace that has few other Leases:
// kube-node-lease, say, has a Lease for each node.
//
// A renewal is one JSON patch, which tests the version and replaces it.
//
// The API server has no clock that clients can ask exactly. So if a node's clock is ahead when a
// pod acquires a worker ID, it goes unnoticed.
//
// # How many renewals
//
// Each holder makes three renewals in a window. With [DefaultWindow], 1,000 pods make 30
// renewals a second together, each a patch of some 1 kB. A long window has a price: if
// a pod ends without Release, no other pod can have its worker ID for up to 100 s. So have a spare
// worker ID for each pod that may crash in that time. If a pod calls Release, its worker ID
// is free at once.
//
// A real API server (1.35.4) and etcd (3.4) on two cores, together with their clients and other
// work (go test -run '^$' -bench . -benchtime 1x):
//
//   - 1,024 holders with the default window make 31 renewals a second, which take 11% of a core in
//     the API server and etcd together, their idle load included. None failed. With 256 holders it
//     is 3%.
//   - To acquire a worker ID takes 16 ms for one client (median), 0.4 s for each of 50 clients at
//     once, and 1.5 s for each of 200.
//   - Windows of 3 s are too short: with 256 holders they take 40 to 60% of a core, and with 1,024
//     holders renewals fail. So keep the window long.
//
// # Hazards
//
// HAZARD: if a cluster's etcd is restored from a backup, it has the bounds from the time of the
// backup, so IDs may repeat. Stop all holders before you restore. Start holders again only
// when the clock is past the last bound, a window after the last holder stopped.
//
// HAZARD: all processes of a fleet must use one cluster, one namespace and one prefix. If they
// use two, two processes have the same worker ID. If a fleet has several clusters, use a store that
// they share, or give each cluster another datacenter in the layout.
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

// DefaultWindow is the window of leases whose Options.Window is 0. With it, 1,000 holders
// make 30 renewals a second together. It is longer than other stores', because the API server
// is everybody's, and because its upgrades take it away for longer.
const DefaultWindow = 100 * time.Second

// Options are the settings of New and InCluster. The zero value, and nil, consist entirely
// of defaults.
type Options struct {
	// Namespace is the namespace of the objects. All processes that share worker IDs
	// must use the same. If it is empty, InCluster takes the pod's namespace, and New
	// returns an error.
	Namespace string

	// Prefix begins the names of all objects: at most 40 lower-case letters, digits and
	// single hyphens, with a letter first and no hyphen last. The default is "snowflake".
	Prefix string
}

// Store is a [driver.Store] in a Kubernetes cluster. It may be used by any number of
// goroutines and leases.
type Store struct {
	config    *rest.Config
	namespace string
	prefix    string

	client atomic.Pointer[client]
}

// A client is of coordination.k8s.io/v1. It trusts what the config's CAFile had when it was made:
// client-go reads files with tokens and with clients' certificates again, but before 0.36 not this
// one (https://github.com/kubernetes/kubernetes/issues/119483).
type client struct {
	*rest.RESTClient
	ca []byte
}

var _ driver.Windower = (*Store)(nil)

// namespaceFile has the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// InCluster returns the store in the cluster of this pod, with the rights of the pod's service
// account. If this process is not in a pod, the error matches [rest.ErrNotInCluster].
// InCluster makes no requests: see [New].
func InCluster(opts *Options) (*Store, error) {
	config, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, fmt.Errorf("k8slease: this process is not in a pod: %w", err)
	case err != nil:
		return nil, fmt.Errorf("k8slease: the pod has no token of a service account: %w: is automountServiceAccountToken false?", err)
	}
	var o Options
	if opts != nil {
		o = *opts
	}
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

// New returns the store in the cluster of a config, which is not changed. New makes no
// requests: if the API server cannot be reached, or refuses the client, Acquire returns the
// error. If the config is nil, or if the options are not valid, the error matches
// [driver.ErrInvalidOptions].
//
// The store speaks HTTP/1.1, so that a connection that hangs is given up with its request, and
// those that wait for requests with it. It has no limit of requests a second (QPS), which would
// delay renewals. If the API server's certificate is not trusted, the store reads the config's
// CAFile again.
//
// Errors name the object, and match the functions of k8s.io/apimachinery's package errors, such as
// IsForbidden. If a Lease has a name that the store needs, but this package did not make it, the
// error matches [driver.ErrBadRecord], and the Lease is not changed: delete it. If
// it has lost its annotation, and still has the label snowflake-ids/store, package lease may
// replace it. If an answer is 429, or 500 or more, the error matches [driver.ErrAway]; likewise if a
// right or the namespace is missing, or a certificate is not trusted, because an operator may be
// about to mend that.
func New(config *rest.Config, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = "snowflake"
	}
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
	// The scheme has only one group. client-go's typed clients have all groups, which makes a
	// program three times as large.
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

// connect makes the client, and makes it again if CAFile has changed.
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

// forget closes the connections that wait for requests. If one of them does not answer any more,
// the others may not either, and each would cost a request.
func (s *Store) forget() {
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

// leases makes a request one for the Leases of the namespace.
func (s *Store) leases(verb string) *rest.Request {
	return s.client.Load().Verb(verb).Namespace(s.namespace).Resource("leases")
}

// DefaultWindow returns the constant of that name.
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

const (
	storeLabel        = "snowflake-ids/store" // the prefix
	kindLabel         = "snowflake-ids/kind"  // see kind
	versionAnnotation = "snowflake-ids/version"
	valueAnnotation   = "snowflake-ids/value"
)

// silent returns a context in which client-go does not log, because it logs to standard error.
func silent(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// name returns the name of a key's object. A key never has two hyphens side by side.
func (s *Store) name(key string) string { return s.prefix + "--" + strings.ReplaceAll(key, "/", "--") }

func (s *Store) key(o *coordination.Lease) string {
	return strings.ReplaceAll(strings.TrimPrefix(o.Name, s.prefix+"--"), "--", "/")
}

// kinds are the kinds of package lease's entries. Lists leave them out unless they ask for them.
var kinds = []string{"history", "mark", "owner", "store", "worker"}

// kind returns the first part of a key as the value of a label, which has at most 63
// characters.
func kind(key string) string {
	first, _, _ := strings.Cut(key, "/")
	return strings.TrimRight(first[:min(len(first), 63)], "-.")
}

// Get returns the entry of key.
func (s *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	_, e, err := s.get(ctx, key)
	return e, err
}

func (s *Store) get(ctx context.Context, key string) (*coordination.Lease, driver.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.Entry{}, err
	}
	ctx = silent(ctx)
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

// List returns the entries whose keys begin with prefix.
func (s *Store) List(ctx context.Context, prefix string) (all []driver.Entry, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var options meta.ListOptions
	// An object without labels counts, too: somebody may have removed them.
	if strings.Contains(prefix, "/") {
		others := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == kind(prefix) })
		options.LabelSelector = kindLabel + " notin (" + strings.Join(others, ",") + ")"
	}
	ctx = silent(ctx)
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
		e, _ := s.entry(l) // even if it cannot be read
		e.Version = cmp.Or(e.Version, "unreadable")
		all = append(all, e)
		return nil
	})
	return all, err
}

// unreadable begins the version of an object that this package made, and that lost its annotation.
// Its UID, a slash and its resourceVersion follow.
const unreadable = "unreadable-"

// entry returns the entry that an object has. If it cannot be read, it has no value, and the error
// matches driver.ErrBadRecord. If somebody else made the object, it has no version either, so it is
// not changed.
func (s *Store) entry(o *coordination.Lease) (driver.Entry, error) {
	e := driver.Entry{Key: s.key(o), Version: o.Annotations[versionAnnotation]}
	switch {
	case e.Version != "":
		e.Value = []byte(o.Annotations[valueAnnotation])
		return e, nil
	case o.Labels[storeLabel] == s.prefix:
		e.Version = unreadable + string(o.UID) + "/" + o.ResourceVersion
		return e, fmt.Errorf("k8slease: %w: somebody removed the annotation %s of %s", driver.ErrBadRecord,
			versionAnnotation, s.place(o.Name))
	}
	return e, fmt.Errorf("k8slease: %w: %s was not made by this package, or somebody removed its annotation %s and its label %s: "+
		"delete it. Change Options.Prefix only while no process has a worker ID: otherwise IDs may repeat",
		driver.ErrBadRecord, s.place(o.Name), versionAnnotation, storeLabel)
}

// Put stores value if the entry's version is still old.
func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	if err := ctx.Err(); err != nil {
		return driver.Entry{}, err
	}
	ctx = silent(ctx)
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

// patch returns a patch that stores e if the entry's version is old, and its form.
func patch(old string, e driver.Entry) (types.PatchType, []byte) {
	if of, ok := strings.CutPrefix(old, unreadable); ok {
		uid, version, _ := strings.Cut(of, "/")
		text, _ := json.Marshal(map[string]any{ // it has only texts, so there is no error
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

// refused returns what Put returns if the API server refused to store e for a reason that may
// be a conflict. If client-go sent the request twice, e may be stored. Copies of a cloned machine
// may draw the same version, but for another value.
func (s *Store) refused(ctx context.Context, e driver.Entry, old string, why error) (driver.Entry, error) {
	is, err := s.Get(ctx, e.Key)
	switch {
	case err != nil && is.Version == "": // with a version, it only cannot be read
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

// Delete removes the entry if its version still is old. It names the object that it has just
// seen, because a request to delete cannot name the version.
func (s *Store) Delete(ctx context.Context, key, old string) error {
	for {
		o, e, err := s.get(ctx, key)
		if err != nil && e.Version == "" { // with a version, it only cannot be read
			return err
		}
		if o == nil || e.Version != old {
			return s.conflict(key)
		}
		seen := meta.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion}
		err = s.leases(http.MethodDelete).Name(o.Name).Body(&meta.DeleteOptions{Preconditions: &seen}).Do(silent(ctx)).Error()
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return s.explain(o.Name, err)
		} // somebody may have changed only a label
	}
}

// spec has what kubectl shows of a Lease: the owner in value, and the time.
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

// namespaceTerminating is why nothing can be created in a namespace. Package k8s.io/api/core/v1 has
// it, too, but is large.
const namespaceTerminating meta.CauseType = "NamespaceTerminating"

// explain adds to an error which object it is about and, if the error is a usual one, what to do.
func (s *Store) explain(name string, err error) error {
	if err == nil {
		return nil
	}
	advice, passes := "", true
	status, untrusted := apierrors.APIStatus(nil), new(tls.CertificateVerificationError)
	switch {
	case apierrors.HasStatusCause(err, namespaceTerminating):
		advice = ": namespace " + s.namespace + " is being deleted; make it again when it is gone"
	case apierrors.IsForbidden(err):
		advice = ": the service account needs get, list, create, patch and delete on leases of coordination.k8s.io in namespace " + s.namespace +
			"; deploy/kubernetes/rbac.yaml has a Role and a RoleBinding"
	case apierrors.IsUnauthorized(err):
		advice, passes = ": the API server does not know the token: it may have expired, or be of another cluster", false
	case apierrors.IsNotFound(err):
		advice = ": is there a namespace " + s.namespace + "? kubectl create namespace " + s.namespace + " makes it"
	case errors.As(err, &untrusted):
		if failed := s.connect(); failed != nil {
			err = fmt.Errorf("%w: %w", err, failed)
		}
	case errors.Is(err, context.DeadlineExceeded):
		s.forget()
		passes = false // package lease knows it
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
