package k8slease_test

import (
	"context"
	"log"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
)

// A process outside the cluster uses the cluster and the user of a kubeconfig.
func ExampleNew() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	store, err := k8slease.New(config, &k8slease.Options{Namespace: "shop"})
	if err != nil {
		log.Fatal(err)
	}

	// ctx bounds only Acquire. The first start of a fleet takes three minutes.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	l, err := lease.Acquire(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Release(context.Background())
}
