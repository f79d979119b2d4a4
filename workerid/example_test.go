package workerid_test

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/workerid"
)

func ExampleFromEnv() {
	os.Setenv("WORKER_ID", "7") // in the unit file, the manifest or the shell
	worker, err := workerid.FromEnv("WORKER_ID", snowflake.DefaultLayout())
	if err != nil {
		fmt.Println(err)
		return
	}
	gen, err := snowflake.New(worker, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(gen.Worker())
	// Output: 7
}

func ExampleFromHostname() {
	l := snowflake.ClockSeqLayout() // 128 workers: up to 128 replicas
	worker, err := workerid.FromHostname(l)
	if err != nil {
		fmt.Println(err) // this is not a pod of a StatefulSet
		return
	}
	gen, err := snowflake.New(worker, &snowflake.Options{Layout: l, OnBackward: snowflake.ClockSeqPolicy()})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(gen.NextID())
}

func ExampleFromPodName() {
	for _, name := range []string{
		"web-7",
		"web-7.web.default.svc.cluster.local",
		"web-07",
		"web-1024",
	} {
		fmt.Println(workerid.FromPodName(name, snowflake.DefaultLayout()))
	}
	// Output:
	// 7 <nil>
	// 7 <nil>
	// 0 workerid: no worker ID: the name "web-07" does not end in an ordinal, as web-7 does
	// 0 workerid: the ordinal of "web-1024": snowflake: worker 1024 does not fit the layout, which has room for 0 to 1023
}

func ExampleFromPrivateIP() {
	l := layouts.Sonyflake() // 16 bits of worker: networks up to a /16
	worker, err := workerid.FromPrivateIP(l)
	if err != nil {
		fmt.Println(err) // no private address, several, or a network wider than a /16
		return
	}
	gen, err := snowflake.New(worker, &snowflake.Options{Layout: l})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(gen.NextID())
}

func ExampleFromIP() {
	for _, address := range []string{"10.1.0.7/24", "10.1.1.7/22", "10.1.0.7/16", "10.1.0.7/32"} {
		fmt.Println(workerid.FromIP(netip.MustParsePrefix(address), snowflake.DefaultLayout()))
	}
	// Output:
	// 7 <nil>
	// 263 <nil>
	// 0 workerid: the host part of 10.1.0.7/16 has 16 bits: snowflake: worker 65535 does not fit the layout, which has room for 0 to 1023
	// 0 workerid: no worker ID: 10.1.0.7/32 has no host part
}
