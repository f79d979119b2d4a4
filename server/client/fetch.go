package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/seed-5394e6b1/snowflake"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

// fetch is a run of requests, in a goroutine, until the buffer has enough IDs.
type fetch struct {
	failed  atomic.Pointer[error] // the error of the last request, or nil
	refused error                 // the error that ended the fetch, if a retry cannot help
	done    chan struct{}         // closed at the end
}

// start returns the running fetch. If there is none, it starts one.
func (c *Client) start() *fetch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fetch == nil {
		c.fetch = &fetch{done: make(chan struct{})}
		if c.ctx.Err() == nil {
			f := c.fetch
			c.ended.Add(1)
			go func() {
				defer c.ended.Done()
				c.run(f)
			}()
		}
	}
	return c.fetch
}

// end ends the fetch if there are enough IDs, it was refused, or the client is closed.
func (c *Client) end(f *fetch, enough func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.refused == nil && c.ctx.Err() == nil && !enough() {
		return false
	}
	c.fetch = nil
	close(f.done)
	return true
}

// isEnough reports whether there are enough IDs, or no call waits. (If answers take longer than
// half of MaxAge, left returns 0.)
func (c *Client) isEnough() bool { return c.left(time.Now()) >= c.refill() || c.noneWaits() }

func (c *Client) noneWaits() bool { return c.waiting.Load() == 0 }

// run sends requests until there are enough IDs. If a request fails, the next one goes to the next
// server. If all servers have failed, run pauses, and then ends if no call waits.
func (c *Client) run(f *fetch) {
	failed, refused := 0, 0 // requests in a row
	for pause := minPause; ; {
		asked := time.Now()
		if asked.Sub(c.limited) >= limitTime {
			c.most.Store(2 * mostBatch)
		}
		n := min(c.o.Batch+int(c.waiting.Load()), int(c.most.Load()))
		a := &answer{c.generation(), asked, asked.Round(0)}
		ids, err := c.call(n)
		if err == nil {
			f.failed.Store(nil)
			c.fill(ids, a)
			if c.end(f, c.isEnough) {
				return
			}
			failed, refused, pause = 0, 0, minPause
			continue
		}
		f.failed.Store(&err)
		if most := limit(err); most > 0 && most < n {
			c.limited = asked
			c.most.Store(int64(most))
			continue
		} else if mayPass(err) {
			refused = 0
		} else if refused++; refused == len(c.servers) {
			f.refused = err
			c.end(f, c.isEnough)
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
		if c.end(f, c.noneWaits) {
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// The first and the longest pause between failed requests. The pauses double.
const minPause, maxPause = 10 * time.Millisecond, time.Second

// limitTime is the time for which a client respects a server's limit, which may change.
const limitTime = time.Minute

// limit returns the maximum number of IDs in a request, if err refuses a request for more, and
// otherwise 0.
func limit(err error) (most int) {
	var refused *connect.Error
	if !errors.As(err, &refused) || refused.Code() != connect.CodeInvalidArgument {
		return 0
	}
	for _, d := range refused.Details() {
		if v, err := d.Value(); err == nil {
			if info, ok := v.(*errdetails.ErrorInfo); ok && info.Reason == "TOO_MANY" {
				most, _ = strconv.Atoi(info.Metadata["max"])
			}
		}
	}
	return most
}

// fill puts the IDs of an answer into the buffer. If the buffer is full, because waiting calls have
// given up, it drops the oldest IDs.
func (c *Client) fill(ids []int64, a *answer) {
	c.last.Store(a)
	for _, id := range ids {
		if len(c.ids) == cap(c.ids) {
			select {
			case <-c.ids:
			default:
			}
		}
		c.ids <- buffered{snowflake.ID(id), a} // does not block, because no other goroutine sends
	}
}

// call sends one request for n IDs.
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

var errNotOurs = errors.New("client: the answer belongs to another request: is there a proxy that caches answers?")

// check returns an error if an answer is not n increasing IDs.
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

// mayPass reports whether a retry with the same server may succeed. An error that is not the
// server's is the network's.
func mayPass(err error) bool {
	var e *connect.Error
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		return false
	}
	if !errors.As(err, &e) {
		return errors.Is(err, errNotOurs) // otherwise it is check's
	}
	switch e.Code() {
	case connect.CodeInvalidArgument, connect.CodeUnauthenticated, connect.CodePermissionDenied,
		connect.CodeUnimplemented, connect.CodeFailedPrecondition, connect.CodeNotFound:
		return false
	}
	return true
}
