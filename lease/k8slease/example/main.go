// The example leases a worker ID from the cluster that it is a pod of, or that a kubeconfig
// names, and issues a few IDs.
//
//	go run ./example -kubeconfig ~/.kube/config -namespace shop
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

func main() {
	log.SetFlags(0)
	kubeconfig := flag.String("kubeconfig", "", "how to reach the cluster; empty: this is a pod")
	namespace := flag.String("namespace", "", "where the worker IDs are; empty: the pod's")
	isNew := flag.Bool("new", false, "the store is known to be new: do not wait in case it was wiped")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *isNew, *kubeconfig, &k8slease.Options{Namespace: *namespace}); err != nil {
		log.Fatal(err)
	}
}

func open(kubeconfig string, o *k8slease.Options) (*k8slease.Store, error) {
	if kubeconfig == "" {
		return k8slease.InCluster(o)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return k8slease.New(config, o)
}

func run(ctx context.Context, isNew bool, kubeconfig string, o *k8slease.Options) error {
	store, err := open(kubeconfig, o)
	if err != nil {
		return err
	}
	l, err := lease.Acquire(ctx, store, &lease.Options{NewStore: isNew})
	if err != nil {
		return err
	}
	defer l.Release(context.Background())
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		return err
	}
	fmt.Println("worker:", l.Worker())
	for range 3 {
		id, err := g.NextIDContext(ctx)
		if err != nil {
			return err
		}
		fmt.Println(id, g.Decode(id))
	}
	return nil
}
