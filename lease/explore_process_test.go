//go:build go1.25

package lease

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

type process struct {
	w        *world
	name     string
	offset   time.Duration
	parked   []*asked // not made yet
	heard    []*asked // made, and not answered yet
	naps     []*rest
	tokens   int
	draws    int
	views    bool // it reads the watermark, and holds nothing
	heardOf  int  // when it was saved last,
	late     int  // and when a save came late; -1 if never
	lease    *Lease
	held     *hold
	reader   *WatermarkReader
	gen      *snowflake.Generator
	err      error
	begun    bool
	calling  bool
	ending   bool // Release was called
	done     bool // Release has returned
	dead     bool
	tried    string // what the last call saw
	issued   int
	refused  error // why the last call issued nothing
	issuedAt int
	put      bool // it has sent a save
	listed   bool
	sights   map[string]sight
	kept     map[string]unchanged // what the entry "silence" said
	shared   int                  // when it last looked at the entry "silence"
	since    int
	last     snowflake.ID
	windows  map[[2]int]snowflake.Grant // by worker ID and clock sequence, as they were granted last
	signed   map[string]bool            // the tokens with which it has saved
	low      map[[2]int]time.Time       // the bounds that it found,
	saved    map[[2]int]time.Time       // and the latest that it saved
	events   strings.Builder
}

type rest struct {
	over chan time.Time
	due  int
}

// idle reports whether the process only looks for a worker ID.
func (p *process) idle() bool { return p.lease == nil && !p.put }

// newTimer is the timer of a rest of the running process. It fires when the story says so.
func (w *world) newTimer(d time.Duration) *time.Timer {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.running
	if w.over || p == nil || p.dead {
		if p == nil && !w.over {
			panic("a process rests on its own")
		}
		runtime.Goexit()
	}
	if p.idle() { // what a search has read is forgotten when it rests
		p.forget()
	}
	due := w.now
	if d > w.layout().Unit*time.Duration(w.span())/6 || p.lease == nil || p.lease.trouble() != nil {
		due += max(1, int((d+tick-1)/tick))
	}
	n := &rest{over: make(chan time.Time, 1), due: due}
	p.naps = append(p.naps, n)
	timer := time.NewTimer(1e6 * time.Hour)
	timer.C = n.over
	return timer
}

// dice chooses each worker ID in turn; the story says which is first. It makes no rest shorter.
func (w *world) dice(n int64) int64 {
	if p := w.running; n == int64(w.workers) && n > 1 && p != nil {
		p.draws++
		return int64(p.draws) % n
	}
	return 0
}

func (w *world) randomText() string {
	w.running.tokens++
	return fmt.Sprint(w.running.name, w.running.tokens)
}

func (p *process) now() time.Time { return time.Now().Add(p.offset) }

// acquire begins the process.
func (p *process) acquire() {
	w := p.w
	p.begun, p.since = true, w.now
	o := &Options{Layout: w.layout(), Owner: p.name[:1], Window: tick * time.Duration(w.span()), Count: w.workers, Clock: snowflake.ClockFunc(p.now), MaxLeap: 1000 * time.Hour}
	go func() {
		l, err := Acquire(context.Background(), asks(p.ask), o)
		w.mu.Lock()
		p.lease, p.err = l, err
		w.mu.Unlock()
		if err != nil {
			return
		}
		policy := snowflake.FailPolicy()
		if w.seqBits > 0 {
			policy = snowflake.ClockSeqPolicy()
		}
		p.gen, err = snowflake.NewLeased(hasty{l}, &snowflake.Options{OnBackward: policy})
		if err != nil {
			panic(err)
		}
	}()
}

// hasty is a lease whose generator does not wait for more than it has.
type hasty struct{ *Lease }

var errHasty = errors.New("not now")

func (hasty) Extend(context.Context, snowflake.Grant, time.Time) error { return errHasty }

// soon is a context that ends soon, and does not say so when it has.
type soon struct{ context.Context }

func (soon) Deadline() (time.Time, bool) { return time.Now().Add(time.Millisecond), true }

// view reads the watermark.
func (p *process) view() {
	w := p.w
	if !p.begun {
		p.begun, p.reader = true, NewWatermarkReader(asks(p.ask))
	}
	go func() {
		m, err := p.reader.Read(context.Background())
		id := m.ID
		w.mu.Lock()
		defer w.mu.Unlock()
		p.done = true
		if err != nil {
			return
		}
		w.tell("%s gets the watermark %s", p.name, w.at(w.layout().Decode(id).Time))
		if id < w.mark {
			w.breaks("the watermark falls from %s to %s", w.at(w.layout().Decode(w.mark).Time), w.at(w.layout().Decode(id).Time))
		}
		w.mark = max(w.mark, id)
	}()
}

func (p *process) issue() {
	mark, was := p.w.mark, p.lease.Grant()
	p.tried = p.sight()
	p.calling = true
	go func() {
		id, err := p.gen.NextIDContext(soon{context.Background()})
		w := p.w
		w.mu.Lock()
		defer w.mu.Unlock()
		p.calling, p.refused = false, err
		if err != nil { // it has changed nothing
			return
		}
		p.issued++
		p.note("issues " + strconv.FormatInt(int64(id), 36))
		parts := w.layout().Decode(id)
		w.tell("%s issues an ID: worker ID %d, clock sequence %d, time %s", p.name, parts.Worker, parts.ClockSeq, w.at(parts.Time))
		if by := w.ids[id]; by != nil {
			w.breaks("%s and %s have issued the same ID, %d", by.name, p.name, id)
		}
		if w.seqBits == 0 && id <= p.last {
			w.breaks("%s issues %d after %d", p.name, id, p.last)
		}
		if mark > 0 {
			p.marked(id, mark, was)
		}
		w.ids[id], p.last = p, id
	}()
}

func (p *process) sight() string {
	if p.ending {
		return "ended"
	}
	return fmt.Sprint(p.now().Unix(), p.lease.Grant(), p.w.mark)
}

func (p *process) release() {
	p.ending = true
	go func() {
		p.err = p.lease.Release(context.Background())
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.done = true
	}()
}

// up reports whether the process is up.
func (p *process) up() bool { return p.begun && !p.dead && !p.done && p.err == nil }

// kill ends the goroutines of a process.
func (p *process) kill() {
	p.dead = true
	for _, r := range p.parked {
		if r.writes() {
			late := *r
			p.w.late = append(p.w.late, &late)
		}
	}
	inOrder(p.w.late)
	p.end()
}

func (p *process) end() {
	for _, r := range append(p.parked, p.heard...) {
		close(r.answered)
	}
	for _, n := range p.naps {
		n.over <- time.Time{}
	}
	p.parked, p.heard, p.naps = nil, nil, nil
}
