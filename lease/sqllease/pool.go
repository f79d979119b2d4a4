package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
	"time"
)

// silence is how long an idle connection may take to answer a ping after another connection has not
// answered in time.
const silence = time.Second

// dropping has the pools whose idle connections are being pinged.
var dropping sync.Map

// dropSilent closes the idle connections of a pool that do not answer. If the network has lost
// them, each would make one later statement time out. database/sql does not ping idle connections,
// and new connections may work.
func dropSilent(db *sql.DB) {
	if _, busy := dropping.LoadOrStore(db, true); busy {
		return
	}
	defer dropping.Delete(db)
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	// If no connection is idle, it makes one, for which a short window may leave too little time.
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
	for _, c := range conns { // not before, so that each is another connection
		if c != nil {
			_ = c.Close()
		}
	}
}
