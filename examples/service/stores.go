package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease"
)

// stores are the stores that this program knows: kubernetes: is the cluster that the program is a pod
// of, and with a file it is that kubeconfig's. Keep one of them in a program of your own. The
// others of the project (sqllease, etcdlease, zklease) fit in here the same way.
var stores = []string{"file:DIRECTORY", "redis://HOST:PORT", "kubernetes:", "kubernetes:KUBECONFIG"}

// open opens the store that a text names. The caller calls done when the lease is released.
func open(ctx context.Context, c config) (store lease.Store, done func(), err error) {
	scheme, rest, _ := strings.Cut(c.store, ":")
	switch {
	case scheme == "file" && rest != "":
		return lease.File(rest), func() {}, nil
	case scheme == "redis":
		return openRedis(ctx, c)
	case scheme == "kubernetes":
		store, err := openKubernetes(ctx, c, rest)
		return store, func() {}, err
	}
	return nil, nil, fmt.Errorf("-store %q is not one of %s", c.store, strings.Join(stores, ", "))
}

func openRedis(ctx context.Context, c config) (lease.Store, func(), error) {
	o, err := redis.ParseURL(c.store)
	if err != nil {
		return nil, nil, fmt.Errorf("-store: %w", err)
	}
	o.ContextTimeoutEnabled, o.DialTimeout = true, time.Second
	client := redis.NewClient(o)
	store, err := redislease.New(client, nil)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, 2*c.window+10*time.Second)
		defer cancel()
		err = store.Create(ctx, c.window) // waits for two windows if the store is not there, and else does nothing
	}
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return store, func() { client.Close() }, nil
}

func openKubernetes(ctx context.Context, c config, kubeconfig string) (lease.Store, error) {
	store, err := kubernetesStore(kubeconfig)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*c.window+10*time.Second)
	defer cancel()
	return store, store.Create(ctx, c.window) // waits for two windows if the store is not there, and else does nothing
}

func kubernetesStore(kubeconfig string) (*k8slease.Store, error) {
	if kubeconfig == "" {
		return k8slease.InCluster(nil)
	}
	file := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, nil)
	config, err := file.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("-store: %w", err)
	}
	namespace, _, err := file.Namespace()
	if err != nil {
		return nil, fmt.Errorf("-store: %w", err)
	}
	config.NextProtos = []string{"http/1.1"} // a connection that hangs ends with its request
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("-store: %w", err)
	}
	return k8slease.New(clientset, &k8slease.Options{Namespace: namespace})
}
