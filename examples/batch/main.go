// The batch program makes 100,000 IDs with one call to Fill, twice.
//
// A millisecond of the default layout has 4,096 IDs, so the batch needs 25
// milliseconds. Without BorrowAhead, Fill waits for each of them. With BorrowAhead,
// Fill stamps these milliseconds in advance and is done at once. The IDs are unique
// in both cases, but with BorrowAhead the last IDs have times in the future.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

func main() {
	for _, borrow := range []time.Duration{0, 50 * time.Millisecond} {
		if err := batch(borrow); err != nil {
			log.Fatal(err)
		}
	}
}

func batch(borrow time.Duration) error {
	g, err := snowflake.New(1, &snowflake.Options{BorrowAhead: borrow})
	if err != nil {
		return err
	}
	ids := make([]snowflake.ID, 100_000)

	start := time.Now()
	n, err := g.Fill(context.Background(), ids)
	took := time.Since(start)
	if err != nil {
		return fmt.Errorf("after %d IDs: %w", n, err)
	}

	first, last := ids[0], ids[n-1]
	s := g.Stats()
	fmt.Printf("BorrowAhead %v\n", borrow)
	fmt.Printf("  made:  %d IDs in %v\n", n, took.Round(10*time.Microsecond))
	fmt.Printf("  first: %v  %v\n", first, g.Decode(first))
	fmt.Printf("  last:  %v  %v\n", last, g.Decode(last))
	fmt.Printf("  stats: issued %d, waited %d times (%v), borrowed %d ticks\n",
		s.Issued, s.Waits, s.Waited.Round(10*time.Microsecond), s.Borrowed)
	return nil
}
