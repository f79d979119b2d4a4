// The logging program logs IDs with log/slog. An ID is one attribute. Its Parts are
// a group of attributes, so you can search a log by worker or by time.
package main

import (
	"log"
	"log/slog"
	"os"

	"github.com/seed-5394e6b1/snowflake"
)

func main() {
	g, err := snowflake.New(7, nil)
	if err != nil {
		log.Fatal(err)
	}
	id, err := g.NextID()
	if err != nil {
		log.Fatal(err)
	}

	for _, h := range []slog.Handler{
		slog.NewTextHandler(os.Stdout, nil),
		slog.NewJSONHandler(os.Stdout, nil),
	} {
		slog.New(h).Info("order created", "id", id, "parts", g.Decode(id))
	}
}
