package sequencer_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/sequencer"
)

// One ID takes a round trip, and so do a thousand.
func ExampleSequencer() {
	client := redis.NewClient(&redis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	ctx := context.Background()

	seq, err := sequencer.New(client, &sequencer.Options{Shard: 0}) // the Redis server's number
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := seq.NextIDContext(ctx)
	fmt.Println(id, err)

	ids := make([]snowflake.ID, 1000)
	n, err := seq.Fill(ctx, ids)
	fmt.Println(ids[:n], err)
}
