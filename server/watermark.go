package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

const (
	rereadAfter = time.Second // the maximum age of a reading for an answer
	shownFor    = time.Minute // the maximum age of a reading for the header and the metric
)

// watermark holds the last reading of Options.Watermark. It is the collector of the age.
type watermark struct {
	turn chan struct{} // a lock for reading (a channel with room for one)
	last atomic.Pointer[reading]
	age  prometheus.Gauge
}

// reading is the result of a call of Options.Watermark. If the call failed, the Mark is that of the
// previous call.
type reading struct {
	lease.Mark
	header []string // the ID as a text; nil if no call has succeeded
	err    error
	at     time.Time
	behind time.Duration // the watermark's age at that time
}

func newWatermark() *watermark {
	return &watermark{turn: make(chan struct{}, 1), age: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "snowflake_store_watermark_age_seconds",
		Help: "Age of the watermark's time when it was last read. There is no value if it was not read within a minute.",
	})}
}

// shown returns the last reading for the header and the metric, or nil.
func (w *watermark) shown(now time.Time) *reading {
	last := w.last.Load()
	if last == nil || last.header == nil || now.Sub(last.at) > shownFor {
		return nil
	}
	return last
}

// shownIn adds the last reading to the headers of answers.
func (w *watermark) shownIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if last := w.shown(time.Now()); last != nil {
			to.Header()["Snowflake-Watermark"] = last.header
		}
		next.ServeHTTP(to, r)
	})
}

// Describe implements prometheus.Collector.
func (w *watermark) Describe(to chan<- *prometheus.Desc) { w.age.Describe(to) }

// Collect implements prometheus.Collector.
func (w *watermark) Collect(to chan<- prometheus.Metric) {
	if w.shown(time.Now()) != nil {
		w.age.Collect(to)
	}
}

// Watermark calls Options.Watermark, or returns its last result if that is less than a second old.
// Call it regularly to have the header and the metric even if no client asks for the watermark. It
// logs when the watermark stops rising, with the reason, and when it rises again.
func (s *Server) Watermark(ctx context.Context) (lease.Mark, error) {
	last, err := s.watermark(ctx)
	if err != nil {
		return lease.Mark{}, err
	}
	return last.Mark, last.err
}

func (s *Server) watermark(ctx context.Context) (*reading, error) {
	if s.o.Watermark == nil {
		return nil, errNoWatermark
	}
	i, err := s.issues()
	if err != nil {
		return nil, err
	}
	select {
	case s.mark.turn <- struct{}{}:
		defer func() { <-s.mark.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	last := s.mark.last.Load()
	if last == nil || time.Since(last.at) >= rereadAfter {
		last = s.readWatermark(ctx, i.gen.Layout(), last)
	}
	return last, last.err
}

// readWatermark calls Options.Watermark. The result is for all clients, so ctx's end does not end
// the call.
func (s *Server) readWatermark(ctx context.Context, layout snowflake.Layout, before *reading) *reading {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeToAnswer())
	defer cancel()
	if before == nil {
		before = new(reading)
	}
	now := *before
	m, err := s.o.Watermark(ctx)
	now.err, now.at = err, time.Now()
	if err == nil {
		now.Mark, now.header = m, []string{m.ID.String()}
	}
	now.behind = now.at.Sub(layout.Decode(now.ID).Time)
	s.mark.age.Set(now.behind.Seconds())
	s.mark.last.Store(&now)
	stood, stands := before.err != nil || before.HeldBy != nil, err != nil || m.HeldBy != nil
	switch {
	case !stood && err != nil:
		s.o.Logger.WarnContext(ctx, "the watermark cannot be read", "error", err)
	case !stood && stands:
		s.o.Logger.WarnContext(ctx, "the watermark stands still", "watermark", m.ID, "why", m.Why, "holder", m.HeldBy.String())
	case stood && !stands:
		s.o.Logger.InfoContext(ctx, "the watermark rises again", "watermark", m.ID)
	}
	return &now
}

// marked is the answer with the watermark.
type marked struct{ *pb.WatermarkResponse }

func (m marked) MarshalJSON() ([]byte, error) { return plainJSON{}.Marshal(m.WatermarkResponse) }

func (m marked) text() []byte {
	text := lines(snowflake.ID(m.Id))
	if h := m.HeldBy; h != nil {
		text = fmt.Appendf(text, "worker %d keeps it back, by %v: %s; owner=%s host=%s pid=%d\n",
			h.Worker, h.Behind.AsDuration(), h.Why, h.Owner, h.Host, h.Pid)
	}
	return text
}

func (s *Server) getWatermark(r *http.Request) (answer, error) {
	out, err := service{s}.Watermark(r.Context(), nil)
	return marked{out}, err
}

func (v service) Watermark(ctx context.Context, _ *pb.WatermarkRequest) (*pb.WatermarkResponse, error) {
	last, err := v.s.watermark(ctx)
	if err != nil && ctx.Err() == nil && !errors.As(err, new(failure)) {
		err = errUnread // the log has the error
	}
	if err != nil {
		return nil, err
	}
	out := &pb.WatermarkResponse{Id: int64(last.ID)}
	if h := last.HeldBy; h != nil {
		out.HeldBy = &pb.Held{
			Worker: int32(h.Worker), Owner: h.Owner, Host: h.Host, Pid: uint32(h.PID), Behind: durationpb.New(last.behind), Why: last.Why,
		}
	}
	return out, nil
}
