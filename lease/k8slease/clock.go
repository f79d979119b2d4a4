package k8slease

import (
	"net/http"
	"sync"
	"time"
)

// clock estimates the API server's clock. The server tells it in the Date header of each
// response, in whole seconds. If we ask at a, and a response with second d comes at b, then at
// some moment between a and b the server's clock was between d and d+1s. So its lead over ours
// is between d-b and d+1s-a. The clock keeps the range that all responses have in common. After
// the first response it is half a second each way. When a response comes near the beginning of
// a second, the range becomes smaller.
type clock struct {
	mu     sync.Mutex
	began  time.Time // our time when the clock was made; its monotonic reading is the start of at
	lo, hi time.Duration
	at     time.Duration // since began: when lo and hi were last found
	known  bool
}

// drift is how much two clocks may part, at most, in each unit of time.
const drift = 0.0005

func newClock() *clock { return &clock{began: time.Now()} }

// observe takes a response with second date, which we asked for at asked and got at came.
func (c *clock) observe(date, asked, came time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := date.Sub(c.began.Round(0))
	lo, hi := first-came.Sub(c.began), first+time.Second-asked.Sub(c.began)
	if c.known {
		wider := time.Duration(float64(came.Sub(c.began)-c.at) * drift)
		c.lo, c.hi = max(lo, c.lo-wider), min(hi, c.hi+wider)
	}
	if !c.known || c.lo > c.hi { // the server's clock was set, or another server answered
		c.lo, c.hi, c.known = lo, hi, true
	}
	c.at = came.Sub(c.began)
}

// now returns the server's time, and true. If no response has come yet, it returns our time, and
// false.
func (c *clock) now() (now time.Time, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return time.Now().Round(0), false
	}
	return c.began.Round(0).Add(time.Since(c.began) + c.lo + (c.hi-c.lo)/2), true
}

// dated is a transport that shows the clock each response.
type dated struct {
	http.RoundTripper
	clock *clock
}

func (d dated) RoundTrip(req *http.Request) (*http.Response, error) {
	asked := time.Now()
	resp, err := d.RoundTripper.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	if date, derr := http.ParseTime(resp.Header.Get("Date")); derr == nil {
		d.clock.observe(date, asked, time.Now())
	}
	return resp, nil
}
