package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"

	"github.com/seed-5394e6b1/snowflake"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

// refill starts to fetch if few IDs are left and nobody fetches. c.mu must be held.
func (c *Client) refill(now time.Time) {
	if c.fetching || c.closed || c.left(now) >= c.o.Refill && len(c.waiting) == 0 {
		return
	}
	c.fetching = true
	c.ended.Go(c.fetch)
}

// fetch fetches until enough IDs are left. If a call fails, it asks the next server, and pauses when each server
// has failed. If nobody waits then, it gives up: the next call of NextID begins again.
func (c *Client) fetch() {
	failed := 0 // calls in a row
	for pause := minPause; ; {
		n := c.wanted()
		born := c.generation()
		ids, err := c.call(n)
		if err == nil {
			if c.received(ids, born, time.Now()) {
				return
			}
			failed, pause = 0, minPause
			continue
		}
		if c.refused(n, err) {
			return
		}
		c.at = (c.at + 1) % len(c.servers)
		if failed++; failed%len(c.servers) != 0 {
			continue
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-c.ctx.Done():
		}
		if c.nobodyWaits() {
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// The pause between two calls that fail. It doubles from one to the next.
const minPause, maxPause = 10 * time.Millisecond, time.Second

// wanted returns how many IDs to ask for.
func (c *Client) wanted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(c.o.Batch+len(c.waiting), c.most)
}

// call asks the server for IDs, once.
func (c *Client) call(n int) ([]int64, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.Timeout)
	defer cancel()
	if c.o.Token != nil {
		var info connect.CallInfo
		ctx, info = connect.NewClientContext(ctx)
		info.RequestHeader().Set("Authorization", "Bearer "+c.o.Token())
	}
	nonce := rand.Uint64()
	out, err := c.servers[c.at].Batch(ctx, &pb.BatchRequest{N: int64(n), Nonce: nonce})
	if err != nil {
		return nil, err
	}
	if out.Nonce != nonce {
		return nil, errNotOurs
	}
	return out.Ids, check(out.Ids, n)
}

var errNotOurs = errors.New("client: the answer belongs to another call: is there a proxy that keeps answers?")

// check refuses an answer that cannot come from a server of IDs.
func check(ids []int64, n int) error {
	if len(ids) != n {
		return fmt.Errorf("client: the server sent %d IDs, not %d", len(ids), n)
	}
	before := int64(-1)
	for _, id := range ids {
		if id <= before {
			return fmt.Errorf("client: the server sent %d after %d", id, before)
		}
		before = id
	}
	return nil
}

// received hands the IDs to the calls that wait, in their order, and keeps the others. It reports
// whether there is nothing more to fetch.
func (c *Client) received(ids []int64, born uint64, now time.Time) (done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = nil
	if !c.closed && born == c.generation() {
		n := min(len(ids), len(c.waiting))
		for i, w := range c.waiting[:n] {
			w.result <- result{id: snowflake.ID(ids[i]), born: born}
		}
		c.waiting = c.waiting[n:]
		if ids = ids[n:]; len(ids) > 0 {
			c.batches = append(c.batches, batch{ids, born, now})
		}
	}
	c.fetching = !c.closed && (c.left(now) < c.o.Refill || len(c.waiting) > 0)
	return !c.fetching
}

// refused notes why a call for n IDs failed. If calling again cannot help, it ends the calls that wait and the
// fetching, and reports it. To ask for fewer IDs can help.
func (c *Client) refused(n int, err error) (final bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err
	if connect.CodeOf(err) == connect.CodeInvalidArgument && n > c.o.Batch {
		c.most = c.o.Batch
		return false
	}
	if helps(err) {
		return false
	}
	c.fail(err)
	c.fetching = false
	return true
}

// nobodyWaits ends the fetching, if nobody waits for it.
func (c *Client) nobodyWaits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetching = !c.closed && len(c.waiting) > 0
	return !c.fetching
}

// helps is whether calling again may help. An error that is not the server's is one of the network.
func helps(err error) bool {
	var e *connect.Error
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		return false
	}
	if !errors.As(err, &e) {
		return errors.Is(err, errNotOurs) // or check's
	}
	switch e.Code() {
	case connect.CodeInvalidArgument, connect.CodeUnauthenticated, connect.CodePermissionDenied,
		connect.CodeUnimplemented, connect.CodeFailedPrecondition, connect.CodeNotFound:
		return false
	}
	return true
}
