// The sql program keeps IDs as the primary key of a database/sql table, and asks for
// the rows of one day by that key. Because the time is in the ID, the table needs no
// timestamp column and no index on it.
//
// The database is SQLite, in memory. The program is a separate module, so that the
// library does not require the driver.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	_ "modernc.org/sqlite"
)

func main() {
	db, err := sql.Open("sqlite", ":memory:")
	check(err)
	defer db.Close()
	db.SetMaxOpenConns(1) // a second connection would open another database
	_, err = db.Exec(`CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, refund_of INTEGER)`)
	check(err)

	monday := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	now := monday // so that three days pass at once; leave out Clock for real time
	g, err := snowflake.New(1, &snowflake.Options{
		Clock: snowflake.ClockFunc(func() time.Time { return now }),
	})
	check(err)
	var refundOf sql.Null[snowflake.ID] // NULL at first
	for i := range 6 {
		id, err := g.NextID()
		check(err)
		_, err = db.Exec(`INSERT INTO orders VALUES (?, ?, ?)`, id, fmt.Sprintf("item %d", i), refundOf)
		check(err)
		refundOf = sql.Null[snowflake.ID]{V: id, Valid: i == 2} // item 3 refunds item 2
		now = now.Add(12 * time.Hour)
	}

	tuesday := monday.AddDate(0, 0, 1)
	lo, hi, err := g.Layout().Range(tuesday, tuesday.AddDate(0, 0, 1))
	check(err)
	fmt.Printf("Tuesday is %v <= id < %v\n", lo, hi)
	rows, err := db.Query(`SELECT id, item, refund_of FROM orders WHERE id >= ? AND id < ? ORDER BY id`, lo, hi)
	check(err)
	for rows.Next() {
		var id snowflake.ID
		var item string
		check(rows.Scan(&id, &item, &refundOf))
		fmt.Printf("  %v  %s  %s", id, g.Decode(id).Time.Format(time.DateTime), item)
		if refundOf.Valid {
			fmt.Printf(", refunds %v", refundOf.V)
		}
		fmt.Println()
	}
	check(rows.Err())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
