package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
	"time"
)

// pingTimeout is the time in which an idle connection must answer a ping.
const pingTimeout = time.Second

// pinging is the set of pools whose idle connections are being pinged.
var pinging sync.Map

// dropDead closes the idle connections of a pool that do not answer, after a statement has timed
// out. If the network has lost them, each would make a later statement time out. database/sql does
// not ping idle connections, and new connections may work.
func dropDead(db *sql.DB) {
	if _, busy := pinging.LoadOrStore(db, true); busy {
		return
	}
	defer pinging.Delete(db)
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	// If no connection is idle, connect now: a short window may leave a statement too little time.
	conns := make([]*sql.Conn, max(1, db.Stats().Idle))
	var pinged sync.WaitGroup
	for i := range conns {
		pinged.Add(1)
		go func() {
			defer pinged.Done()
			c, err := db.Conn(ctx)
			if err != nil {
				return
			}
			if conns[i] = c; c.PingContext(ctx) != nil {
				_ = c.Raw(func(any) error { return driver.ErrBadConn }) // the pool closes it
			}
		}()
	}
	pinged.Wait()
	for _, c := range conns { // only now, so that each is a different connection
		if c != nil {
			_ = c.Close()
		}
	}
}
