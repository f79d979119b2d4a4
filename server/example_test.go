package server_test

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/server"
)

func Example() {
	gen, err := snowflake.New(7, nil) // or NewLeased, and Options.Lease
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(gen, nil)
	if err != nil {
		log.Fatal(err)
	}
	h := httptest.NewServer(s) // or s.HTTPServer(":8080").ListenAndServe()
	defer h.Close()

	resp, err := http.Get(h.URL + "/ids?n=3")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ IDs []snowflake.ID }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		log.Fatal(err)
	}
	for _, id := range answer.IDs {
		fmt.Println(snowflake.Decode(id).Worker)
	}
	// Output:
	// 7
	// 7
	// 7
}
