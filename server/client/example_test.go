package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/server"
	"github.com/seed-5394e6b1/snowflake/server/client"
)

func Example() {
	// A server, as "go run ./cmd/snowflaked" is one.
	gen, err := snowflake.New(7, nil)
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(gen, nil)
	if err != nil {
		log.Fatal(err)
	}
	h := httptest.NewServer(s)
	defer h.Close()

	c, err := client.New(h.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	a, err := c.NextIDContext(context.Background()) // fetches a batch
	if err != nil {
		log.Fatal(err)
	}
	b, err := c.NextIDContext(context.Background()) // takes the next ID of the batch
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a < b, snowflake.Decode(b).Worker)
	// Output: true 7
}
