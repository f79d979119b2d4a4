// The basic program issues a few IDs and takes them apart again.
package main

import (
	"fmt"
	"log"

	"github.com/seed-5394e6b1/snowflake"
)

func main() {
	const worker = 7 // no other process may have it at the same time

	g, err := snowflake.New(worker, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("layout:", g.Layout())

	for range 3 {
		id, err := g.NextID()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println()
		fmt.Println("id:    ", id)
		fmt.Println("base62:", id.Base62())
		fmt.Println("parts: ", g.Decode(id))
	}
}
